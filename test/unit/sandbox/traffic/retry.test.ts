import { expect, test } from "vitest";
import type { Clock } from "../../../../src/model/clock.ts";
import { createPace } from "../../../../src/sandbox/traffic/scenario.ts";
import { isWorthRetry, retryWait } from "../../../../src/sandbox/traffic/sender.ts";

const retry = { tries: 6, firstMs: 100, longestMs: 5_000 };
const now = Date.UTC(2026, 10, 1, 12, 0, 0);

test("waits grow, honour Retry-After in both spellings, and are bounded", () => {
  expect([1, 2, 3, 10].map((tried) => retryWait(retry, tried, undefined, now))).toEqual([100, 200, 400, 5_000]);
  expect(retryWait(retry, 1, "2", now)).toBe(2_000);
  expect(retryWait(retry, 1, new Date(now + 3_000).toUTCString(), now)).toBe(3_000);
  expect(retryWait(retry, 1, "3600", now)).toBe(5_000);
  expect(retryWait(retry, 1, "soon", now)).toBe(100);
});

test("only the relay's own trouble is worth another try", () => {
  expect([200, 202, 400, 401, 404, 413, 429].filter(isWorthRetry)).toEqual([]);
  expect([500, 502, 503, 504].every(isWorthRetry)).toBe(true);
});

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
