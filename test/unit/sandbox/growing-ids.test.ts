import fc from "fast-check";
import { expect, test } from "vitest";
import { createGrowingIds, createRandom } from "../../../src/sandbox/ids.ts";

const base = 1_800_000_000_000;

test("ids grow and are UUIDs, whatever the clock does", () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: -3, max: 3 }), { minLength: 2, maxLength: 50 }),
      (steps) => {
        let now = base;
        const next = createGrowingIds({ now: () => now, random: createRandom("ids") });
        const ids = steps.map((step) => {
          now += step;
          return next();
        });
        expect(ids).toEqual([...new Set(ids)].toSorted());
        for (const id of ids)
          expect(id).toMatch(
            /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
          );
      },
    ),
  );
});

test("more than 4,096 of them in one millisecond", () => {
  const next = createGrowingIds({ now: () => base, random: createRandom("ids") });
  const ids = Array.from({ length: 10_000 }, next);
  expect(ids).toEqual([...new Set(ids)].toSorted());
});

test("after an earlier run, ids are greater than its last, though the clock stepped back", () => {
  const early = createGrowingIds({ now: () => base + 60_000, random: createRandom("one") });
  const last = Array.from({ length: 5_000 }, early).at(-1) as string;
  const next = createGrowingIds({ now: () => base, random: createRandom("two"), after: last });
  expect(next() > last).toBe(true);
});
