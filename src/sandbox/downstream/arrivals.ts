import type { SignatureVerdict } from "../signing.ts";

export interface Arrival {
  readonly number: number;
  readonly path: string;
  /** Empty when absent. */
  readonly deliveryId: string;
  readonly attempt: number;
  readonly eventId: string | null;
  readonly wamid: string | null;
  /** Null for a hang or a reset. */
  readonly answered: number | null;
  readonly signature: SignatureVerdict | "unchecked";
  readonly body: Buffer | null;
}

export interface ArrivalCounts {
  arrivals: number;
  taken: number;
  /** Of a delivery that was answered 2xx before. */
  duplicates: number;
  failed: number;
  badSignatures: number;
  withoutId: number;
}

/** Without `keepArrivals` only counts are kept, and an id and two numbers per delivery. */
export function createArrivalLog({ keepArrivals }: { keepArrivals: boolean }) {
  const all: Arrival[] = [];
  const attempts = new Map<string, number>();
  const taken = new Set<string>();
  const byPath = new Map<string, ArrivalCounts>();
  return {
    all,
    /** Which attempt this is, before the answer is known. */
    begin(deliveryId: string): number {
      const attempt = (attempts.get(deliveryId) ?? 0) + 1;
      attempts.set(deliveryId, attempt);
      return attempt;
    },
    note(arrival: Arrival): void {
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
    counts(path?: string): ArrivalCounts {
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

/** An event was accepted anywhere from `after` to `before`: of concurrent posts the sender knows no more. */
export interface AcceptedAt {
  readonly after: number;
  readonly before: number;
}

export interface OrderViolation {
  readonly path: string;
  readonly wamid: string;
  readonly early: string;
  readonly late: string;
}

/**
 * Where deliveries of one message reached a path in another order than their events were accepted (promise 3). One must not arrive
 * before each accepted earlier was taken; one never taken must at least have been tried earlier.
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
