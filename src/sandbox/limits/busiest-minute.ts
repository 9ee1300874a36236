import { minuteMs } from "./minute-window.ts";

/** What arrived in a sliding minute: (now − 60 s, now]. Exact to the millisecond, wherever windows of a cap begin. */
export interface BusiestMinute {
  add(now: number): void;
  /** In the last minute. */
  last(now: number): number;
  /** In the busiest minute so far. */
  peak(): number;
}

/** A ring of arrival times, oldest first, that grows to hold the busiest minute. */
export function createBusiestMinute(): BusiestMinute {
  let ring = new Float64Array(64);
  let first = 0;
  let size = 0;
  let newest = Number.NEGATIVE_INFINITY;
  let peak = 0;
  /** Times must not fall, or the oldest would not be first. */
  const forward = (now: number): number => {
    newest = Math.max(newest, now);
    while (size > 0 && (ring[first] as number) <= newest - minuteMs) {
      first = (first + 1) % ring.length;
      size -= 1;
    }
    return newest;
  };
  return {
    add(now) {
      const at = forward(now);
      if (size === ring.length) {
        const larger = new Float64Array(2 * size);
        larger.set(ring.subarray(first));
        larger.set(ring.subarray(0, first), size - first);
        ring = larger;
        first = 0;
      }
      ring[(first + size) % ring.length] = at;
      size += 1;
      peak = Math.max(peak, size);
    },
    last(now) {
      forward(now);
      return size;
    },
    peak: () => peak,
  };
}
