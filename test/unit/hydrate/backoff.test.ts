import fc from "fast-check";
import { expect, test } from "vitest";
import { waitAfter } from "../../../src/hydrate/pass.ts";

test("waits grow from half a minute to ten minutes", () => {
  expect([1, 2, 3, 4, 5, 6, 7].map((failures) => waitAfter(failures, null, 1))).toEqual([
    30_000, 60_000, 120_000, 240_000, 480_000, 600_000, 600_000,
  ]);
});

test("waits until the time that the service gives, at most ten minutes", () => {
  expect([5_000, 599_999, 20 * 86_400_000].map((until) => waitAfter(3, until, 0))).toEqual([
    5_000, 599_999, 600_000,
  ]);
  // A time in the past is ignored.
  expect(waitAfter(1, -5, 0)).toBe(15_000);
});

test("is always positive and at most ten minutes", () => {
  const until = fc.option(fc.integer({ min: -1_000, max: 2 ** 40 }));
  const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 10_000 }), until, random, (failures, left, chance) => {
      const wait = waitAfter(failures, left, chance);
      expect(wait).toBeGreaterThan(0);
      expect(wait).toBeLessThanOrEqual(600_000);
    }),
  );
});
