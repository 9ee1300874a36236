import { hourMs, minuteMs } from "../../model/history.ts";

export const minutesPerHour = hourMs / minuteMs;

/** `at` of the row of an hour, by a minute in it. Hours are negative, so that no minute has their place. */
export const atOfHour = (minute: number): number => 0 - Math.floor(minute / minutesPerHour) * minutesPerHour;

/** `at` of all rows of an hour, which begins at the unix minute `first`. */
export function atsOfHour(first: number): number[] {
  return [atOfHour(first), ...Array.from({ length: minutesPerHour }, (_, minute) => first + minute)];
}
