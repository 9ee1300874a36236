/** Argentina has kept UTC-3 all year since 2009. */
const behindUtcMs = 3 * 3_600_000;

const dayMs = 24 * 3_600_000;
let last = { day: Number.NaN, month: "" };

/** The month that quotas are counted in, as `2026-11`: it begins on day 1 at 00:00 in Argentina ("Limits"). */
export function quotaMonth(now: number): string {
  const there = now - behindUtcMs;
  const day = Math.floor(there / dayMs);
  // Asked several times for each call and each delivery: writing a date out cost 2 % of a busy sandbox.
  if (day !== last.day) last = { day, month: new Date(there).toISOString().slice(0, 7) };
  return last.month;
}
