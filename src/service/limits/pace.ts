/** Spreads calls over the minute. Times are steady ms. */
export interface Pace {
  /** When the next may go; now or earlier: at once. */
  readyAt(): number;
  take(now: number): void;
}

/**
 * A burst of a sixth of `perMinute` (rounded up), then an even pace: within any w ms at most
 * `ceil(perMinute / 6) + perMinute * w / 60000` go ("Spread sends over time (for example 1 per second on
 * escala)", messaging-service-api.md, "Responses at the limit").
 */
export function createPace(perMinute: number): Pace {
  const interval = 60_000 / perMinute;
  const saved = Math.ceil(perMinute / 6) * interval;
  // The generic cell rate algorithm: one number, the time at which the whole burst will be saved up again.
  let fullAt = 0;
  return {
    // Sums of fractions are off by a little, which must not cost a whole millisecond.
    readyAt: () => Math.ceil(fullAt + interval - saved - 1e-6),
    take(now) {
      fullAt = Math.max(fullAt, now) + interval;
    },
  };
}
