export interface TokenBucket {
  /** Takes a token when there is one. */
  take(): boolean;
  /** Unix milliseconds at which `take` will next succeed; now or earlier when it would succeed at once. */
  nextAt(): number;
  close(): void;
}

/**
 * Share of a second whose tokens may be saved up. Small, because downstream counts in windows of its
 * own and a full second saved up would let twice the rate through; not smaller, because timers tick in
 * whole milliseconds and a high rate could not be kept.
 */
const savedSeconds = 0.1;

/**
 * Lets `perSecond` attempts a second start: within any w seconds at most `perSecond * w + max(1,
 * perSecond / 10)`. `clock` gives unix milliseconds.
 */
export function createTokenBucket(perSecond: number, clock: () => number): TokenBucket {
  const interval = 1000 / perSecond;
  const saved = Math.max(1, perSecond * savedSeconds) * interval;
  // Times within are relative: at the size of unix milliseconds, sums of fractions drift.
  const origin = clock();
  // The generic cell rate algorithm: one number, the time at which the bucket will be full again.
  let fullAt = 0;

  function next(now: number): number {
    // Further ahead than an empty bucket can be: the clock was set back.
    fullAt = Math.min(fullAt, now + saved);
    return Math.ceil(fullAt + interval - saved);
  }

  return {
    take() {
      const now = clock() - origin;
      if (next(now) > now) return false;
      fullAt = Math.max(fullAt, now) + interval;
      return true;
    },
    nextAt: () => origin + next(clock() - origin),
    close() {},
  };
}
