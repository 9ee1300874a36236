import { expect, test } from "vitest";
import { createPace } from "../../../../src/sandbox/traffic/scenario.ts";
import { createManualClock } from "../../../harness/manual-clock.ts";

test("the pace lets the rate through, and after a stall no more than 100 ms of it at once", async () => {
  const clock = createManualClock();
  const pace = createPace(1_000, clock);
  let passed = 0;
  const work = async () => {
    for (;;) {
      await pace();
      passed += 1;
      if (passed >= 400) return;
    }
  };
  const workers = Array.from({ length: 50 }, work);
  for (let tick = 0; tick < 40; tick += 1) {
    expect(passed).toBeLessThanOrEqual(1 + tick * 5);
    await clock.advance(5);
  }
  expect(passed).toBe(201);
  await clock.advance(1_000);
  await Promise.all(workers);
  await clock.advance(10_000);
  let atOnce = 0;
  while (pace() === undefined) atOnce += 1;
  expect(atOnce).toBe(101);
});
