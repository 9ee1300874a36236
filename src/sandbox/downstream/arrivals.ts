import type { SignatureVerdict } from "../signing.ts";

export interface Arrival {
  /** 1 for the first arrival at this downstream, of any delivery. */
  readonly number: number;
  readonly path: string;
  /** The `webhook-id` header; empty when absent. */
  readonly deliveryId: string;
  /** How many times this delivery has arrived by now, this time included. */
  readonly attempt: number;
  /** `id` of the event and `data.wamid`, where the body has them. */
  readonly eventId: string | null;
  readonly wamid: string | null;
  /** The status answered; null when none was (hang, reset). */
  readonly answered: number | null;
  readonly signature: SignatureVerdict | "unchecked";
  /** Null with `keepBodies: false`. */
  readonly body: Buffer | null;
}

export interface ArrivalCounts {
  arrivals: number;
  /** Distinct deliveries answered 2xx. */
  taken: number;
  /** Arrivals of a delivery that had been answered 2xx before. */
  duplicates: number;
  /** Arrivals not answered 2xx. */
  failed: number;
  /** Signatures that were checked and not valid. */
  badSignatures: number;
  withoutId: number;
}

export interface ArrivalLog {
  /** Tells which attempt this is, before the answer is known. */
  begin(deliveryId: string): number;
  note(arrival: Arrival): void;
  readonly all: readonly Arrival[];
  counts(path?: string): ArrivalCounts;
}

/** The downstream's record. With `keepArrivals: false` only counts are kept, and per delivery its id and two numbers. */
export function createArrivalLog({ keepArrivals }: { keepArrivals: boolean }): ArrivalLog {
  const all: Arrival[] = [];
  const attempts = new Map<string, number>();
  const taken = new Set<string>();
  const byPath = new Map<string, ArrivalCounts>();
  return {
    all,
    begin(deliveryId) {
      const attempt = (attempts.get(deliveryId) ?? 0) + 1;
      attempts.set(deliveryId, attempt);
      return attempt;
    },
    note(arrival) {
      if (keepArrivals) all.push(arrival);
      let counts = byPath.get(arrival.path);
      if (counts === undefined) {
        counts = noCounts();
        byPath.set(arrival.path, counts);
      }
      counts.arrivals += 1;
      if (arrival.deliveryId === "") counts.withoutId += 1;
      if (arrival.signature === "invalid" || arrival.signature === "absent") counts.badSignatures += 1;
      const before = taken.has(arrival.deliveryId);
      if (before) counts.duplicates += 1;
      if (!isSuccess(arrival.answered)) counts.failed += 1;
      else if (!before) {
        taken.add(arrival.deliveryId);
        counts.taken += 1;
      }
    },
    counts(path) {
      if (path !== undefined) return { ...(byPath.get(path) ?? noCounts()) };
      const sum = noCounts();
      for (const counts of byPath.values()) {
        for (const key of Object.keys(sum) as (keyof ArrivalCounts)[]) sum[key] += counts[key];
      }
      return sum;
    },
  };
}

function noCounts(): ArrivalCounts {
  return { arrivals: 0, taken: 0, duplicates: 0, failed: 0, badSignatures: 0, withoutId: 0 };
}

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
    for (const late of deliveries) {
      const arrivedBefore = deliveries.filter(({ first }) => first < (late.taken ?? late.first));
      const early = arrivedBefore.find(({ after }) => late.before < after);
      if (early !== undefined) violations.push({ path, wamid, early: early.eventId, late: late.eventId });
    }
  }
  return violations;
}

interface Delivered extends AcceptedAt {
  readonly eventId: string;
  /** Number of its first arrival, and of the first that was answered 2xx. */
  readonly first: number;
  taken: number | null;
}

function byMessage(arrivals: Iterable<Arrival>, acceptedAt: (eventId: string) => AcceptedAt | undefined) {
  const messages = new Map<string, { path: string; wamid: string; deliveries: Delivered[] }>();
  const known = new Map<string, Delivered>();
  for (const { number, path, deliveryId, eventId, wamid, answered } of arrivals) {
    if (wamid === null || eventId === null) continue;
    let delivery = known.get(deliveryId);
    if (delivery === undefined) {
      const accepted = acceptedAt(eventId);
      if (accepted === undefined) continue;
      delivery = { eventId, after: accepted.after, before: accepted.before, first: number, taken: null };
      known.set(deliveryId, delivery);
      const key = `${path}\0${wamid}`;
      const message = messages.get(key) ?? { path, wamid, deliveries: [] };
      messages.set(key, message);
      message.deliveries.push(delivery);
    }
    if (isSuccess(answered)) delivery.taken ??= number;
  }
  return messages.values();
}

function isSuccess(answered: number | null): boolean {
  return answered !== null && answered >= 200 && answered <= 299;
}
