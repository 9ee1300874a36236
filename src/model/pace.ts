/**
 * The generic cell rate algorithm: `burst` at once, then one every `interval` ms. Times are ms of a clock that does not go
 * back. `isUsedUp`: begins without the burst.
 */
export function createPace(interval: number, burst: number, start = 0, isUsedUp = false) {
  // When the whole burst is available again. Relative to `start`: for large numbers, sums of fractions drift.
  let fullAt = isUsedUp ? burst * interval : 0;
  return {
    /** Now or earlier: the next one may go. Rounding errors must not cost a whole millisecond. */
    readyAt: (): number => start + Math.ceil(fullAt + interval - burst * interval - 1e-6),
    take(now: number): void {
      fullAt = Math.max(fullAt, now - start) + interval;
    },
    /** What went before counts on. */
    change(nextInterval: number, nextBurst: number, now: number): void {
      const taken = Math.max(0, fullAt - (now - start)) / interval;
      [interval, burst] = [nextInterval, nextBurst];
      fullAt = now - start + taken * interval;
    },
  };
}
