/** Argentina is three hours behind UTC all year: no daylight saving since 2009. */
const behindUtcMs = 3 * 3_600_000;

/**
 * The next renewal of the monthly quotas after `now`: day 1 of a month, 00:00 Argentina time
 * (messaging-service-api.md, "Limits"). Both in unix milliseconds; the answer is always later than `now`.
 */
export function nextRenewal(now: number): number {
  const there = new Date(now - behindUtcMs);
  return Date.UTC(there.getUTCFullYear(), there.getUTCMonth() + 1, 1) + behindUtcMs;
}
