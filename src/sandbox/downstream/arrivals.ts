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

export type ArrivalCounts = ReturnType<typeof noCounts>;

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
      const counts = byPath.get(arrival.path) ?? noCounts();
      byPath.set(arrival.path, counts);
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

/** `duplicates` are of a delivery that was answered 2xx before. */
function noCounts() {
  return { arrivals: 0, taken: 0, duplicates: 0, failed: 0, badSignatures: 0, withoutId: 0 };
}

function isSuccess(answered: number | null): boolean {
  return answered !== null && answered >= 200 && answered <= 299;
}
