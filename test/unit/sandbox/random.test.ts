import fc from "fast-check";
import { expect, test } from "vitest";
import { createRandom } from "../../../src/sandbox/ids.ts";

test("the same seed gives the same numbers, another seed others", () => {
  const draw = (seed: string | number) =>
    Array.from(
      { length: 20 },
      (
        (random) => () =>
          random.below(1000)
      )(createRandom(seed)),
    );
  expect(draw(7)).toEqual(draw(7));
  expect(draw(7)).not.toEqual(draw(8));
  // Fixed for ever: a seed written in a bug report must give the same run after an update.
  expect(draw("demo").slice(0, 5)).toMatchInlineSnapshot(`
    [
      159,
      866,
      4,
      355,
      982,
    ]
  `);
});

test("a fork does not depend on what was drawn before it", () => {
  const fresh = createRandom(1);
  const used = createRandom(1);
  used.bytes(100);
  expect(used.fork("ids").bytes(16)).toEqual(fresh.fork("ids").bytes(16));
  expect(fresh.fork("ids").bytes(16)).not.toEqual(fresh.fork("wamids").bytes(16));
});

test("numbers stay in range and spread evenly", () => {
  fc.assert(
    fc.property(fc.integer(), fc.integer({ min: 1, max: 1_000_000 }), (seed, limit) => {
      const random = createRandom(seed);
      for (let drawn = 0; drawn < 50; drawn += 1) {
        const value = random.below(limit);
        expect(Number.isInteger(value) && value >= 0 && value < limit).toBe(true);
      }
    }),
  );
  const random = createRandom("spread");
  const buckets = new Array<number>(10).fill(0);
  for (let drawn = 0; drawn < 100_000; drawn += 1) {
    const bucket = random.below(10);
    buckets[bucket] = (buckets[bucket] ?? 0) + 1;
  }
  for (const count of buckets) expect(Math.abs(count - 10_000)).toBeLessThan(500);
});
