import type { Arrival } from "./arrivals.ts";

/**
 * When an event was accepted: anywhere from `after` to `before`. A known position p is `{after: p, before: p}`;
 * what a sender knows of concurrent posts is an interval (see `Acknowledgement`).
 */
export interface AcceptedAt {
  readonly after: number;
  readonly before: number;
}

export interface OrderViolation {
  readonly path: string;
  readonly wamid: string;
  /** This event arrived first although the other had been accepted before it. */
  readonly early: string;
  readonly late: string;
}

/**
 * Where deliveries of one message reached a path in another order than their events were accepted
 * (DESIGN.md, "Promises", 3). Looks at the first arrival of each delivery: attempts that come again, and
 * events whose place nobody knows, prove nothing. Arrivals that failed count too: order is that of going out.
 */
export function findOrderViolations(
  arrivals: Iterable<Arrival>,
  acceptedAt: (eventId: string) => AcceptedAt | undefined,
): OrderViolation[] {
  const violations: OrderViolation[] = [];
  const latest = new Map<string, { eventId: string; after: number }>();
  for (const { attempt, path, wamid, eventId } of arrivals) {
    if (attempt !== 1 || wamid === null || eventId === null) continue;
    const accepted = acceptedAt(eventId);
    if (accepted === undefined) continue;
    const key = `${path}\0${wamid}`;
    const known = latest.get(key);
    if (known !== undefined && accepted.before < known.after) violations.push({ path, wamid, early: known.eventId, late: eventId });
    if (known === undefined || accepted.after > known.after) latest.set(key, { eventId, after: accepted.after });
  }
  return violations;
}
