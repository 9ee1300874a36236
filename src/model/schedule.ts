import { Cron } from "croner";
import { z } from "zod";

function isSchedule(text: string): boolean {
  if (text === "off") return true;
  try {
    return nextRun(text, Date.now()) !== null;
  } catch {
    return false;
  }
}

export const scheduleSchema = z
  .string("must be a cron pattern in quotes, or off")
  .refine(isSchedule, "is neither a cron pattern that ever comes (like * * * * *) nor off");

/** The next run of a cron pattern (UTC) after `now`; null: never. */
export function nextRun(pattern: string, now: number): number | null {
  return (
    new Cron(pattern, { paused: true, utcOffset: 0 }).nextRun(new Date(now))?.getTime() ?? null
  );
}

/** Detects a changed clock or a machine that slept within this time. */
const longestWaitMs = 60_000;

/**
 * Says whether a run of a schedule is due, and in how many ms to ask again. The schedule and the
 * clock may change in between.
 */
export function createTimetable(now: () => number) {
  let planned: { readonly schedule: string; readonly at: number } | null = null;
  return (schedule: string): { readonly isDue: boolean; readonly waitMs: number } => {
    // One reading: a time that came between two would be skipped.
    const at = now();
    const isDue = planned?.schedule === schedule && at >= planned.at;
    const next = schedule === "off" ? null : nextRun(schedule, at);
    planned = { schedule, at: next ?? Number.POSITIVE_INFINITY };
    return { isDue, waitMs: Math.min(longestWaitMs, planned.at - at) };
  };
}
