export interface TokenBucket {
  /** Takes a token if there is one. */
  take(): boolean;
  /** Unix milliseconds at which `take` succeeds next; now or earlier when it succeeds at once. */
  nextAt(): number;
}

/**
 * Seconds worth of tokens that may be saved up. A full second would allow twice the rate within a window of the
 * downstream's. Much less would not sustain a high rate, because timers tick in whole milliseconds.
 */
const savedSeconds = 0.1;

/**
 * Lets `perSecond` attempts a second start: within any w seconds at most `perSecond * w + max(1,
 * perSecond / 10)`. `clock` gives unix milliseconds. `isEmpty`: another process may have used up the tokens.
 */
export function createTokenBucket(perSecond: number, clock: () => number, isEmpty = false): TokenBucket {
  const interval = 1000 / perSecond;
  const saved = Math.max(1, perSecond * savedSeconds) * interval;
  // Times are relative to `origin`: at the size of unix milliseconds, sums of fractions drift.
  const origin = clock();
  // The generic cell rate algorithm: one number, the time at which the bucket will be full again.
  let fullAt = isEmpty ? saved : 0;

  function next(now: number): number {
    // Later than an empty bucket allows: the clock was set back.
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
  };
}
