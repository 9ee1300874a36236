/** Argentina has kept UTC-3 all year since 2009. */
const behindUtcMs = 3 * 3_600_000;

/** The month that quotas are counted in, as `2026-11`: it begins on day 1 at 00:00 in Argentina ("Limits"). */
export function quotaMonth(now: number): string {
  return new Date(now - behindUtcMs).toISOString().slice(0, 7);
}
