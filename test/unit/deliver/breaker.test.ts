import fc from "fast-check";
import { expect, test } from "vitest";
import { breakerVerdict, createBreaker } from "../../../src/deliver/health.ts";
import { createSteadyTime } from "../../../src/model/clock.ts";
import { attemptErrors } from "../../../src/model/delivery.ts";

const settings = { failures: 3, pause: 1000, longest: 5000 };

function setUp(start = 0) {
  const time = { now: start };
  const breaker = createBreaker(settings, () => time.now);
  const fail = (times: number) => {
    for (let n = 0; n < times; n += 1) breaker.record(false);
  };
  return { time, breaker, fail };
}

test("an operator ends a pause", () => {
  const { breaker } = setUp();
  expect(breaker.tryNow()).toBe(false);
  breaker.pause(5000);
  expect(breaker.tryNow()).toBe(true);
  expect(breaker.pausedUntil()).toBe(0);
});

test("after a pause one attempt goes first, whose record lets the others start or pauses again", () => {
  const { breaker, time } = setUp();
  breaker.mayStart();
  breaker.pause(1000);
  // It began before the pause.
  breaker.record(true);
  time.now = 1000;
  const starts = () => [breaker.mayStart(), breaker.mayStart()];
  expect(starts()).toEqual([true, false]);
  breaker.record(false);
  breaker.pause(2000);
  time.now = 2000;
  expect([...starts(), breaker.waitsForProbe()]).toEqual([true, false, true]);
  breaker.record("neutral");
  expect([...starts(), breaker.waitsForProbe(), breaker.state()]).toEqual([
    true,
    true,
    false,
    "closed",
  ]);
  breaker.pause(1000);
  expect(starts()).toEqual([true, true]);
});

test("an operator has a probe sent before the breaker's time is over, which decides as any probe does", () => {
  const { breaker, fail, time } = setUp();
  fail(3);
  expect(breaker.tryNow()).toBe(true);
  expect(breaker.state()).toBe("half-open");
  expect(breaker.tryNow()).toBe(false);
  expect([breaker.mayStart(), breaker.mayStart()]).toEqual([true, false]);
  fail(1);
  expect(breaker.openUntil()).toBe(2000);
  time.now = 500;
  breaker.tryNow();
  breaker.mayStart();
  breaker.record(true);
  expect(breaker.state()).toBe("closed");
});

test("agrees with a plain implementation of its table", () => {
  type Move = { ask: true } | { record: boolean | "neutral" } | { wait: number };
  const move: fc.Arbitrary<Move> = fc.oneof(
    fc.constant<Move>({ ask: true }),
    fc.constantFrom(true, false, "neutral" as const).map((record): Move => ({ record })),
    fc.integer({ min: 0, max: 3000 }).map((wait): Move => ({ wait })),
  );
  fc.assert(
    fc.property(fc.array(move, { maxLength: 200 }), (moves) => {
      const { breaker, time } = setUp();
      let model = { state: "closed", failures: 0, pause: settings.pause, until: 0, probe: false };
      for (const step of moves) {
        if ("wait" in step) time.now += step.wait;
        if (model.state === "open" && time.now >= model.until)
          model = { ...model, state: "half-open", probe: false };
        if ("ask" in step) {
          const expected =
            model.state === "closed" || (model.state === "half-open" && !model.probe);
          if (model.state === "half-open") model = { ...model, probe: true };
          expect(breaker.mayStart()).toBe(expected);
        } else if ("record" in step) {
          breaker.record(step.record);
          if (model.state === "half-open") {
            const pause = Math.min(model.pause * 2, settings.longest);
            if (step.record === true)
              model = { ...model, state: "closed", failures: 0, pause: settings.pause };
            else if (step.record === false)
              model = { ...model, state: "open", pause, until: time.now + pause };
            else model = { ...model, probe: false };
          } else if (model.state === "closed" && step.record !== "neutral") {
            const failures = step.record ? 0 : model.failures + 1;
            const opens = failures === settings.failures;
            model = {
              ...model,
              failures,
              ...(opens ? { state: "open", until: time.now + model.pause } : {}),
            };
          }
        }
        expect(breaker.state()).toBe(model.state);
        expect(breaker.openUntil()).toBe(model.state === "open" ? model.until : null);
      }
    }),
  );
});

test("5xx, 3xx, 408, 429 and no answer are failures, 2xx is a success, the rest is neutral", () => {
  const verdict = (status: number) =>
    breakerVerdict({ kind: "answered", status, retryAfterMs: null });
  expect([200, 204, 299].map(verdict)).toEqual([true, true, true]);
  expect([301, 408, 429, 500, 503, 599].map(verdict)).toEqual([
    false,
    false,
    false,
    false,
    false,
    false,
  ]);
  expect([400, 401, 404, 410, 422].map(verdict)).toEqual([
    "neutral",
    "neutral",
    "neutral",
    "neutral",
    "neutral",
  ]);
  for (const error of attemptErrors)
    expect(breakerVerdict({ kind: "failed", error })).toBe(
      ["aborted", "internal", "rejected"].includes(error) ? "neutral" : false,
    );
});

test("open or paused, the clock set back delays nothing", () => {
  let wall = 3_600_000;
  const time = createSteadyTime({ now: () => wall, after: () => () => {} });
  const breaker = createBreaker(settings, time.now);
  for (let n = 0; n < 3; n += 1) breaker.record(false);
  breaker.pause(time.now() + 2000);
  wall = 0;
  expect([breaker.openUntil(), breaker.pausedUntil()].map((at) => time.toUnix(at ?? 0))).toEqual([
    1000, 2000,
  ]);
  wall = 1000;
  expect(breaker.mayStart()).toBe(true);
});
