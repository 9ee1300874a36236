import { Cron } from "croner";
import { z } from "zod";

/** Checks with the library that runs the schedule. */
function isSchedule(text: string): boolean {
  if (text === "off") return true;
  try {
    return nextRun(text, Date.now()) !== null;
  } catch {
    return false;
  }
}

/** A cron pattern in UTC, or `off`. */
export const scheduleSchema = z
  .string("must be a cron pattern in quotes, or off")
  .refine(isSchedule, "is neither a cron pattern that ever comes (like * * * * *) nor off");

/** The next run of a cron pattern (UTC) after `now`, in unix ms; null: never. */
export function nextRun(pattern: string, now: number): number | null {
  return new Cron(pattern, { paused: true, utcOffset: 0 }).nextRun(new Date(now))?.getTime() ?? null;
}
