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
  /** This event arrived although the other had been accepted before it and was not taken yet. */
  readonly early: string;
  readonly late: string;
}

interface Delivered extends AcceptedAt {
  readonly eventId: string;
  /** Number of its first arrival, and of the first that was answered 2xx. */
  readonly first: number;
  taken: number | null;
}

/**
 * Where deliveries of one message reached a path in another order than their events were accepted
 * (DESIGN.md, "Promises", 3): one must not arrive at all before each accepted earlier was taken, and
 * one that was never taken (dead letter, or still to come) must at least have been tried earlier.
 * Events whose position is unknown are left out. One violation per event that came too late.
 */
export function findOrderViolations(
  arrivals: Iterable<Arrival>,
  acceptedAt: (eventId: string) => AcceptedAt | undefined,
): OrderViolation[] {
  const violations: OrderViolation[] = [];
  for (const { path, wamid, deliveries } of byMessage(arrivals, acceptedAt)) {
    // Deliveries stand in order of first arrival: what had arrived by a number is the beginning of the list.
    const newest: Delivered[] = [];
    for (const delivery of deliveries) {
      const known = newest.at(-1);
      newest.push(known === undefined || delivery.after > known.after ? delivery : known);
    }
    for (const late of deliveries) {
      const early = newest[countBefore(deliveries, late.taken ?? late.first) - 1];
      if (early !== undefined && late.before < early.after) violations.push({ path, wamid, early: early.eventId, late: late.eventId });
    }
  }
  return violations;
}

function byMessage(arrivals: Iterable<Arrival>, acceptedAt: (eventId: string) => AcceptedAt | undefined) {
  const messages = new Map<string, { path: string; wamid: string; deliveries: Delivered[] }>();
  const known = new Map<string, Delivered>();
  for (const { number, path, deliveryId, eventId, wamid, answered } of arrivals) {
    if (wamid === null || eventId === null) continue;
    const isTaken = answered !== null && answered >= 200 && answered <= 299;
    const delivery = known.get(deliveryId);
    if (delivery !== undefined) {
      if (isTaken) delivery.taken ??= number;
      continue;
    }
    const accepted = acceptedAt(eventId);
    if (accepted === undefined) continue;
    const { after, before } = accepted;
    const first: Delivered = { eventId, after, before, first: number, taken: isTaken ? number : null };
    known.set(deliveryId, first);
    const key = `${path}\0${wamid}`;
    const message = messages.get(key);
    if (message === undefined) messages.set(key, { path, wamid, deliveries: [first] });
    else message.deliveries.push(first);
  }
  return messages.values();
}

/** How many arrived for the first time before `number`; `deliveries` in order of first arrival. */
function countBefore(deliveries: readonly Delivered[], number: number): number {
  let low = 0;
  let high = deliveries.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((deliveries[middle] as Delivered).first < number) low = middle + 1;
    else high = middle;
  }
  return low;
}
