import fc from "fast-check";
import { expect, test } from "vitest";
import { createSharedRate } from "../../../src/deliver/rate.ts";
import { createRedisRate } from "../../../src/store/redis/shared-limits.ts";
import { useGivenTime } from "./given-time.ts";

const given = useGivenTime();

function setUp(count: number, perSecond: number) {
  const world = given.world();
  const name = given.fresh();
  const processes = Array.from({ length: count }, () => {
    const link = world.link();
    const told = { changes: 0 };
    const bucket = createSharedRate(perSecond, createRedisRate(link, "relay", name, world.clock.now), world.clock, () => {
      told.changes += 1;
    });
    return { bucket, link, told };
  });

  /** Starts up to `most`, as a lane does; gives how many. */
  async function start({ bucket }: (typeof processes)[number], most: number): Promise<number> {
    let started = 0;
    // One that finds nothing to start has asked all the same.
    if (most === 0) bucket.nextAt();
    await world.quiet();
    while (started < most) {
      if (bucket.nextAt() > world.clock.now()) {
        await world.quiet();
        if (bucket.nextAt() > world.clock.now()) break;
      }
      if (bucket.take()) started += 1;
    }
    return started;
  }
  return { ...world, processes, start };
}

test("5/s over two processes: one at once, then one every 200 ms", async () => {
  const { processes, clock, start } = setUp(2, 5);
  const [one, two] = processes as [(typeof processes)[0], (typeof processes)[0]];
  expect([await start(one, 9), await start(two, 9)]).toEqual([1, 0]);
  expect(two.bucket.nextAt()).toBe(clock.now() + 200);
  await clock.advance(199);
  expect([await start(one, 9), await start(two, 9)]).toEqual([0, 0]);
  await clock.advance(1);
  expect([await start(two, 9), await start(one, 9)]).toEqual([1, 0]);
});

test("three processes never exceed the rate in any window, and reach it when they take all", async () => {
  const visit = fc.record({ by: fc.nat({ max: 2 }), wait: fc.integer({ min: 0, max: 150 }), most: fc.constantFrom(0, 1, 3, 40, 400) });
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(0.5, 3, 10, 15, 40, 250, 2000),
      fc.array(visit, { minLength: 20, maxLength: 80, size: "max" }),
      async (perSecond, visits) => {
        const { processes, clock, start } = setUp(3, perSecond);
        const starts: { at: number; count: number }[] = [];
        for (const { by, wait, most } of visits) {
          await clock.advance(wait);
          const count = await start(processes[by] as (typeof processes)[0], most);
          if (count > 0) starts.push({ at: clock.now(), count });
        }
        for (let from = 0; from < starts.length; from += 1) {
          let sum = 0;
          for (const { at, count } of starts.slice(from)) {
            sum += count;
            const seconds = (at - (starts[from]?.at as number)) / 1000;
            // A token that came may be used some milliseconds later: at the lowest rates that is what is over.
            const late = perSecond < 20 ? perSecond * 0.02 : 0;
            expect(sum).toBeLessThanOrEqual(perSecond * seconds + Math.max(1, perSecond / 10) + late + 0.01);
          }
        }
      },
    ),
    { numRuns: 40 },
  );
});

test.for([2, 15, 100, 1000])("%d/s: three processes reach the rate together", async (perSecond) => {
  const { processes, clock, start } = setUp(3, perSecond);
  let started = 0;
  const stepMs = 5;
  const seconds = perSecond < 20 ? 5 : 1;
  for (let ms = 0; ms < seconds * 1000; ms += stepMs) {
    for (const process of processes) started += await start(process, 1000);
    await clock.advance(stepMs);
  }
  expect(started).toBeGreaterThanOrEqual(perSecond * seconds * 0.95);
  expect(started).toBeLessThanOrEqual(perSecond * seconds + Math.max(1, perSecond / 10));
});

test("needs few round trips at a high rate, and wastes few tokens at a low one", async () => {
  const { processes, clock, calls, start } = setUp(2, 2000);
  const [busy, idle] = processes as [(typeof processes)[0], (typeof processes)[0]];
  let started = 0;
  for (let ms = 0; ms < 1000; ms += 5) {
    started += (await start(busy, 1000)) + (await start(idle, ms % 100 === 0 ? 1 : 0));
    await clock.advance(5);
  }
  expect(started).toBeGreaterThan(1800);
  expect(calls()).toBeLessThan(600);
});

test("without Redis nothing starts and requests are rare, and it recovers", async () => {
  const { processes, clock, calls, quiet } = setUp(1, 100);
  const [one] = processes as [(typeof processes)[0]];
  one.link.cut = true;
  for (let ms = 0; ms < 5000; ms += 100) {
    expect(one.bucket.nextAt()).toBeGreaterThan(clock.now());
    await quiet();
    await clock.advance(100);
  }
  expect(calls()).toBeLessThanOrEqual(11);
  expect(one.told.changes).toBe(calls());
  one.link.cut = false;
  await clock.advance(500);
  one.bucket.nextAt();
  await quiet();
  expect(one.bucket.take()).toBe(true);
});
