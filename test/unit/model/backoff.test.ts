import { expect, test } from "vitest";
import { growingWait, withJitter } from "../../../src/model/clock.ts";

test("doubles the wait for each failure, up to the longest", () => {
  expect([1, 2, 3, 4].map((failures) => growingWait(failures, 500, 30_000))).toEqual([
    500, 1_000, 2_000, 4_000,
  ]);
  expect(growingWait(10_000, 500, 30_000)).toBe(30_000);
});

test("jitter takes away up to half of the wait", () => {
  expect([0, 0.5, 1].map((random) => withJitter(1_000, random))).toEqual([500, 750, 1_000]);
});
