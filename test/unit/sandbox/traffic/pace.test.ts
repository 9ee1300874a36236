import { expect, test } from "vitest";
import type { Clock } from "../../../../src/model/clock.ts";
import { createPace } from "../../../../src/sandbox/traffic/scenario.ts";

test("the pace lets the rate through and not more, on few timers", async () => {
  let time = 0;
  let timers: (() => void)[] = [];
  let timersSet = 0;
  const clock: Clock = {
    now: () => time,
    after: (_ms, run) => {
      timersSet += 1;
      timers.push(run);
      return () => undefined;
    },
  };
  const pace = createPace(1000, clock);
  let passed = 0;
  let running = 50;
  const work = async () => {
    while (passed < 500) {
      await pace();
      passed += 1;
    }
    running -= 1;
  };
  const workers = Array.from({ length: running }, work);
  const passedAt: number[] = [];
  while (running > 0) {
    for (let turn = 0; turn < 300; turn += 1) await Promise.resolve();
    passedAt.push(passed);
    time += 5;
    const due = timers;
    timers = [];
    for (const run of due) run();
  }
  await Promise.all(workers);
  // Five may pass in five milliseconds, and one at the very start.
  for (const [tick, count] of passedAt.entries()) expect(count).toBeLessThanOrEqual(1 + tick * 5);
  expect(passedAt[50]).toBeGreaterThanOrEqual(245);
  expect(timersSet).toBeLessThan(150);
});
