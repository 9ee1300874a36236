import fc from "fast-check";
import { describe, expect, test } from "vitest";
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

describe("closed", () => {
  test("opens on failures in a row only", () => {
    const { breaker, fail } = setUp();
    fail(2);
    breaker.record(true);
    fail(2);
    expect(breaker.state()).toBe("closed");
    expect(breaker.mayStart()).toBe(true);
    expect(breaker.openUntil()).toBeNull();
    fail(1);
    expect(breaker.state()).toBe("open");
    expect(breaker.mayStart()).toBe(false);
    expect(breaker.openUntil()).toBe(1000);
  });

  test("a neutral result neither trips nor resets it", () => {
    const { breaker, fail } = setUp();
    fail(2);
    for (let n = 0; n < 10; n += 1) breaker.record("neutral");
    expect(breaker.state()).toBe("closed");
    fail(1);
    expect(breaker.state()).toBe("open");
  });
});

describe("open", () => {
  test("results of attempts that began before it opened change nothing", () => {
    const { breaker, fail } = setUp();
    fail(3);
    fail(5);
    breaker.record(true);
    expect(breaker.openUntil()).toBe(1000);
  });

  test("an operator ends a pause", () => {
    const { breaker } = setUp();
    expect(breaker.tryNow()).toBe(false);
    breaker.pause(5000);
    expect(breaker.tryNow()).toBe(true);
    expect(breaker.pausedUntil()).toBe(0);
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
});

describe("half-open", () => {
  test("allows one probe, whose success closes it", () => {
    const { breaker, fail, time } = setUp();
    fail(3);
    time.now = 1000;
    expect(breaker.state()).toBe("half-open");
    expect(breaker.openUntil()).toBeNull();
    expect([breaker.mayStart(), breaker.mayStart()]).toEqual([true, false]);
    breaker.record(true);
    expect(breaker.state()).toBe("closed");
    expect([breaker.mayStart(), breaker.mayStart()]).toEqual([true, true]);
  });

  test("a failed probe doubles the pause up to the longest, and a success resets it", () => {
    const { breaker, fail, time } = setUp();
    fail(3);
    const pauses = [];
    for (let n = 0; n < 5; n += 1) {
      const until = breaker.openUntil() ?? Number.NaN;
      pauses.push(until - time.now);
      time.now = until;
      expect(breaker.mayStart()).toBe(true);
      breaker.record(false);
    }
    expect(pauses).toEqual([1000, 2000, 4000, 5000, 5000]);
    time.now = breaker.openUntil() ?? Number.NaN;
    expect(breaker.mayStart()).toBe(true);
    breaker.record(true);
    fail(3);
    expect((breaker.openUntil() ?? Number.NaN) - time.now).toBe(1000);
  });

  test("a neutral probe allows another one", () => {
    const { breaker, fail, time } = setUp();
    fail(3);
    time.now = 1000;
    expect(breaker.mayStart()).toBe(true);
    breaker.record("neutral");
    expect(breaker.state()).toBe("half-open");
    expect([breaker.mayStart(), breaker.mayStart()]).toEqual([true, false]);
  });
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
        if (model.state === "open" && time.now >= model.until) model = { ...model, state: "half-open", probe: false };
        if ("ask" in step) {
          const expected = model.state === "closed" || (model.state === "half-open" && !model.probe);
          if (model.state === "half-open") model = { ...model, probe: true };
          expect(breaker.mayStart()).toBe(expected);
        } else if ("record" in step) {
          breaker.record(step.record);
          if (model.state === "half-open") {
            const pause = Math.min(model.pause * 2, settings.longest);
            if (step.record === true) model = { ...model, state: "closed", failures: 0, pause: settings.pause };
            else if (step.record === false) model = { ...model, state: "open", pause, until: time.now + pause };
            else model = { ...model, probe: false };
          } else if (model.state === "closed" && step.record !== "neutral") {
            const failures = step.record ? 0 : model.failures + 1;
            const opens = failures === settings.failures;
            model = { ...model, failures, ...(opens ? { state: "open", until: time.now + model.pause } : {}) };
          }
        }
        expect(breaker.state()).toBe(model.state);
        expect(breaker.openUntil()).toBe(model.state === "open" ? model.until : null);
      }
    }),
  );
});

test("5xx, 3xx, 408, 429 and no answer are failures, 2xx is a success, the rest is neutral", () => {
  const verdict = (status: number) => breakerVerdict({ kind: "answered", status, retryAfterMs: null });
  expect([200, 204, 299].map(verdict)).toEqual([true, true, true]);
  expect([301, 408, 429, 500, 503, 599].map(verdict)).toEqual([false, false, false, false, false, false]);
  expect([400, 401, 404, 410, 422].map(verdict)).toEqual(["neutral", "neutral", "neutral", "neutral", "neutral"]);
  for (const error of attemptErrors)
    expect(breakerVerdict({ kind: "failed", error })).toBe(["aborted", "internal", "rejected"].includes(error) ? "neutral" : false);
});

test("open or paused, the clock set back delays nothing", () => {
  let wall = 3_600_000;
  const time = createSteadyTime({ now: () => wall, after: () => () => {} });
  const breaker = createBreaker(settings, time.now);
  for (let n = 0; n < 3; n += 1) breaker.record(false);
  breaker.pause(time.now() + 2000);
  wall = 0;
  expect([breaker.openUntil(), breaker.pausedUntil()].map((at) => time.toUnix(at ?? 0))).toEqual([1000, 2000]);
  wall = 1000;
  expect(breaker.mayStart()).toBe(true);
});
