/** Times, each no earlier than the one before it; taking off what is past costs O(1) each. */
export interface TimeQueue {
  push(at: number): void;
  /** Takes off all times up to and including `now`. */
  dropUntil(now: number): void;
  /** The earliest one; Infinity when there is none. */
  first(): number;
  size(): number;
}

export function createTimeQueue(): TimeQueue {
  let times: number[] = [];
  let head = 0;
  return {
    push: (at) => void times.push(at),
    dropUntil(now) {
      while (head < times.length && (times[head] as number) <= now) head += 1;
      // Copying no more than what was taken off keeps it O(1) each.
      if (head * 2 >= times.length) {
        times = times.slice(head);
        head = 0;
      }
    },
    first: () => times[head] ?? Number.POSITIVE_INFINITY,
    size: () => times.length - head,
  };
}
