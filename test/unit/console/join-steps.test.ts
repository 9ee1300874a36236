import { expect, test } from "vitest";
import { joinSteps, stack } from "../../../src/console/parts/join-steps.ts";

const minute = 60_000;
const hour = 60 * minute;
const ones = (length: number): number[] => new Array<number>(length).fill(1);
const from = Date.UTC(2026, 10, 21, 13, 7);

test.each([
  [60, minute, minute, 60],
  [1440, minute, 15 * minute, 97],
  [168, hour, 2 * hour, 85],
  [720, hour, 6 * hour, 121],
  [90, 24 * hour, 24 * hour, 90],
])(
  "joins %i steps of %i ms to bars of %i ms that begin at round times, and loses none",
  (steps, stepMs, ms, count) => {
    const begin = Math.floor(from / stepMs) * stepMs;
    const bars = joinSteps(begin, stepMs, [ones(steps), ones(steps)]);
    expect(bars).toMatchObject({ ms, from: Math.floor(begin / ms) * ms });
    expect(bars.values[1]).toHaveLength(count);
    expect(bars.values[1]?.reduce<number>((sum, n) => sum + (n ?? 0), 0)).toBe(steps);
  },
);

test("a bar without a value has none, and the others stack", () => {
  const { values } = joinSteps(from, minute, [
    [1, 2, null],
    [4, null, null],
  ]);
  expect(stack(values)).toEqual([
    [1, 2, null],
    [5, 2, null],
  ]);
  expect(joinSteps(from, minute, [])).toMatchObject({ values: [] });
});
