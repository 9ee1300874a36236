import { expect, test } from "vitest";
import { createTimetable } from "../../../src/model/schedule.ts";

test("skips no time that comes between two readings of the clock", () => {
  let at = 0;
  const timetable = createTimetable(() => at++);
  expect(timetable("* * * * *")).toEqual({ isDue: false, waitMs: 60_000 });
  at = 59_999;
  expect(timetable("* * * * *")).toEqual({ isDue: false, waitMs: 1 });
  expect(timetable("* * * * *")).toEqual({ isDue: true, waitMs: 60_000 });
});
