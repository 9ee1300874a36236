import fc from "fast-check";
import { expect, test } from "vitest";
import { createPace, createSteadyTime } from "../../../src/model/clock.ts";

/** The pace of a destination with a `rate`. */
function createTokenBucket(perSecond: number, time: () => number) {
  const { readyAt, take } = createPace(1000 / perSecond, Math.max(1, perSecond / 10), time());
  return {
    nextAt: readyAt,
    take(): boolean {
      const isReady = readyAt() <= time();
      if (isReady) take(time());
      return isReady;
    },
  };
}

test("saves up a tenth of a second at most", () => {
  let now = 0;
  const bucket = createTokenBucket(50, () => now);
  now = 3_600_000;
  let taken = 0;
  while (bucket.take()) taken += 1;
  expect(taken).toBe(5);
});

test("continues when the clock is set back", () => {
  let wall = 3_600_000;
  const time = createSteadyTime({ now: () => wall, after: () => () => {} });
  const bucket = createTokenBucket(1, time.now);
  expect(bucket.take()).toBe(true);
  wall = 0;
  expect(time.toUnix(bucket.nextAt())).toBe(1000);
  expect(bucket.take()).toBe(false);
  wall = 1000;
  expect(bucket.take()).toBe(true);
});

test("reaches the rate, never exceeds it, and `nextAt` is exact", () => {
  const rate = fc.oneof(
    fc.double({ min: 0.001, max: 2, noNaN: true }),
    fc.double({ min: 1, max: 20_000, noNaN: true }),
  );
  fc.assert(
    fc.property(rate, fc.integer({ min: 0, max: 4e12 }), (perSecond, start) => {
      let now = start;
      const bucket = createTokenBucket(perSecond, () => now);
      let taken = 0;
      // Greedy: takes all it gets, and comes back when it is told to.
      for (let round = 0; round < 200; round += 1) {
        expect(bucket.take()).toBe(true);
        taken += 1;
        while (bucket.take()) taken += 1;
        expect(bucket.nextAt()).toBeGreaterThan(now);
        const seconds = (now - start) / 1000;
        expect(taken).toBeLessThanOrEqual(perSecond * seconds + Math.max(1, perSecond / 10) + 1e-3);
        now = bucket.nextAt();
      }
      // Waits are whole milliseconds: slow rates lose up to a hundredth.
      expect(taken).toBeGreaterThanOrEqual(
        Math.floor(((now - start) / 1000) * perSecond * 0.99) - 1,
      );
    }),
  );
});
