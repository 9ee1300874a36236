import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { now, readClock } from "../../../src/console/app/clock.ts";

const dayMs = 86_400_000;
const date = (at: number): string => new Date(at).toUTCString();
const relayTime = Date.UTC(2026, 10, 21, 12, 0, 0, 400);
const real = Date.now;
afterEach(() => {
  Date.now = real;
});
const browserAt = (at: number): void => {
  Date.now = () => at;
};

test.each([-dayMs, -7_200_000, 46_800_000, dayMs])(
  "a browser's clock that is %i ms off shows the relay's time",
  (ms) => {
    browserAt(relayTime + ms);
    readClock(date(relayTime), 0);
    expect(Math.abs(now() - relayTime)).toBeLessThanOrEqual(1_000);
  },
);

test("a right clock stays as it is, also after a slow answer and without a Date", () => {
  browserAt(relayTime);
  readClock(date(relayTime), 0);
  const before = now();
  readClock(date(relayTime - 20_000), 20_500);
  readClock(null, 0);
  readClock("no date", 0);
  expect(now()).toBe(before);
});

test("a clock that somebody corrects meanwhile is right after the next answer", () => {
  browserAt(relayTime - dayMs);
  readClock(date(relayTime), 0);
  browserAt(relayTime);
  readClock(date(relayTime), 50);
  expect(Math.abs(now() - relayTime)).toBeLessThanOrEqual(1_000);
});

test("the console takes the time from its clock alone", () => {
  const folder = join(import.meta.dirname, "../../../src/console");
  const direct = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((file) => /\.tsx?$/.test(file) && file !== "app/clock.ts")
    .filter((file) =>
      /\bDate\.now\b|\bnew Date\(\s*\)|[^.\w]Date\(\s*\)/.test(
        readFileSync(join(folder, file), "utf8"),
      ),
    );
  expect(direct).toEqual([]);
});
