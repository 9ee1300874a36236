/** Argentina is three hours behind UTC all year: no daylight saving since 2009. */
const behindUtcMs = 3 * 3_600_000;

/**
 * The next renewal of the monthly quotas after `now`: day 1 of a month, 00:00 Argentina time
 * (messaging-service-api.md, "Limits"). Both in unix milliseconds; the answer is always later than `now`.
 */
export function nextRenewal(now: number): number {
  return firstOfMonth(now, 1);
}

/** The month of the quota that `now` falls into, from one renewal to the next, in unix milliseconds. */
export function quotaMonth(now: number): { readonly from: number; readonly until: number } {
  return { from: firstOfMonth(now, 0), until: firstOfMonth(now, 1) };
}

/** When the day of `now` began in Argentina, in unix milliseconds. */
export function quotaDay(now: number): number {
  const day = 24 * 3_600_000;
  return Math.floor((now - behindUtcMs) / day) * day + behindUtcMs;
}

function firstOfMonth(now: number, ahead: number): number {
  const there = new Date(now - behindUtcMs);
  return Date.UTC(there.getUTCFullYear(), there.getUTCMonth() + ahead, 1) + behindUtcMs;
}
