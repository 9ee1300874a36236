import { Cron } from "croner";

/** When a cron pattern (UTC) comes next after `now`, in unix ms; null: never. */
export function nextRun(pattern: string, now: number): number | null {
  return new Cron(pattern, { paused: true, utcOffset: 0 }).nextRun(new Date(now))?.getTime() ?? null;
}
