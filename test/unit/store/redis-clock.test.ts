import { expect, test } from "vitest";
import type { Redis } from "../../../src/store/redis/client.ts";
import { createRedisClock } from "../../../src/store/redis/server.ts";
import { createManualClock } from "../../harness/manual-clock.ts";

const hour = 3_600_000;

/** A machine whose clock may be set, and a Redis whose answers take as long as is said, each way. */
function setUp() {
  const world = { steady: 500, machine: 1_700_000_000_000, redis: 1_700_000_000_000 + hour };
  const pass = (ms: number): void => {
    for (const name of ["steady", "machine", "redis"] as const) world[name] += ms;
  };
  let road = { there: 0, back: 0 };
  const redis = {
    async sendCommand() {
      pass(road.there);
      const told = [String(Math.floor(world.redis / 1000)), String(Math.round((world.redis % 1000) * 1000))];
      pass(road.back);
      return told;
    },
  } as unknown as Redis;
  const clock = createRedisClock({ ...createManualClock(), now: () => world.machine }, () => world.steady);
  return {
    world,
    pass,
    clock,
    /** How far it is off the time of Redis, in ms. */
    off: () => clock.now() - Math.floor(world.redis),
    async follow(there: number, back: number) {
      road = { there, back };
      await clock.follow(redis, "{relay}:");
    },
  };
}

test("until Redis was asked it is the machine's time; then Redis' own, and setting the machine's clock changes nothing", async () => {
  const { world, pass, clock, off, follow } = setUp();
  expect(clock.now()).toBe(world.machine);
  await follow(0, 0);
  expect(off()).toBe(0);
  for (const set of [hour, -5 * hour]) {
    world.machine += set;
    pass(1000);
    expect(off()).toBe(0);
  }
});

test("a slow answer moves nothing that is still possible; a faster one sets right what the one before left open", async () => {
  const { off, follow } = setUp();
  await follow(0, 80);
  expect(off()).toBe(-40);
  await follow(1, 1);
  expect(Math.abs(off())).toBeLessThanOrEqual(1);
  const before = off();
  for (const [there, back] of [
    [500, 5],
    [5, 500],
  ] as const) {
    await follow(there, back);
    expect(off()).toBe(before);
  }
});

test("when Redis' clock is set, or goes faster, it is followed with the next answer", async () => {
  const { world, off, follow } = setUp();
  await follow(1, 1);
  for (const set of [-hour, 2 * hour, 3]) {
    world.redis += set;
    await follow(1, 1);
    expect(Math.abs(off())).toBeLessThanOrEqual(1);
  }
});
