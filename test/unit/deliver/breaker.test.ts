import fc from "fast-check";
import { expect, test } from "vitest";
import { breakerVerdict, createBreaker } from "../../../src/deliver/health.ts";
import { createSteadyTime } from "../../../src/model/clock.ts";
import { attemptErrors } from "../../../src/model/delivery.ts";

const settings = { failures: 3, pause: 1000, longest: 5000 };

function setUp(start = 0) {
  const time = { now: start };
  const breaker = createBreaker(settings, () => time.now);
  const record = (ok: boolean | "neutral") => breaker.record(ok, breaker.phase());
  const fail = (times: number) => {
    for (let n = 0; n < times; n += 1) record(false);
  };
  return { time, breaker, record, fail };
}

test("an operator ends a pause", () => {
  const { breaker } = setUp();
  expect(breaker.tryNow()).toBe(false);
  breaker.pause(5000);
  expect(breaker.tryNow()).toBe(true);
  expect(breaker.pausedUntil()).toBe(0);
});

test("after a pause one attempt goes first, whose record lets the others start or pauses again", () => {
  const { breaker, time, record } = setUp();
  const before = breaker.phase();
  breaker.pause(1000);
  breaker.record(true, before);
  time.now = 1000;
  breaker.record(true, before);
  const starts = () => [breaker.mayStart(), breaker.mayStart()];
  expect(starts()).toEqual([true, false]);
  breaker.record(true, before);
  expect(starts()).toEqual([false, false]);
  record(false);
  breaker.pause(2000);
  time.now = 2000;
  expect([...starts(), breaker.waitsForProbe()]).toEqual([true, false, true]);
  record("neutral");
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
  const { breaker, fail, record, time } = setUp();
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
  record(true);
  expect(breaker.state()).toBe("closed");
});

test("agrees with a plain implementation of its table, whichever attempts end late", () => {
  type Move =
    | { ask: true }
    | { end: number; as: boolean | "neutral" }
    | { wait: number }
    | { pause: number };
  const move: fc.Arbitrary<Move> = fc.oneof(
    { weight: 4, arbitrary: fc.constant<Move>({ ask: true }) },
    {
      weight: 4,
      arbitrary: fc.record({
        end: fc.nat(9),
        as: fc.constantFrom(true, false, "neutral" as const),
      }),
    },
    { weight: 2, arbitrary: fc.record({ wait: fc.nat(3000) }) },
    { weight: 1, arbitrary: fc.record({ pause: fc.nat(2000) }) },
  );
  const began = { failures: 0, probe: false };
  fc.assert(
    fc.property(fc.array(move, { maxLength: 200 }), (moves) => {
      const { breaker, time } = setUp();
      let model = { ...began, state: "closed", pause: settings.pause, until: 0, cautious: false };
      let inFlight: { phase: number; isLate: boolean }[] = [];
      const change = (to: Partial<typeof model>) => {
        model = { ...model, probe: false, ...to };
        inFlight = inFlight.map(({ phase }) => ({ phase, isLate: true }));
      };
      for (const step of moves) {
        if ("wait" in step) time.now += step.wait;
        if (model.state === "open" && time.now >= model.until)
          change({ ...began, state: "half-open" });
        if ("pause" in step) {
          breaker.pause(time.now + step.pause);
          if (step.pause > 0) change({ cautious: true });
        } else if ("ask" in step) {
          const isCautious = model.state === "half-open" || model.cautious;
          const expected = model.state !== "open" && !(isCautious && model.probe);
          expect(breaker.mayStart()).toBe(expected);
          if (expected) {
            model = { ...model, probe: isCautious };
            inFlight.push({ phase: breaker.phase(), isLate: false });
          }
        } else if ("end" in step) {
          const [attempt] = inFlight.splice(step.end, 1);
          if (attempt === undefined) continue;
          breaker.record(step.as, attempt.phase);
          if (attempt.isLate) continue;
          model = { ...model, probe: false, cautious: false };
          if (step.as === "neutral") continue;
          const isProbe = model.state === "half-open";
          const failures = step.as ? 0 : model.failures + 1;
          const pause = isProbe ? Math.min(model.pause * 2, settings.longest) : model.pause;
          if (isProbe && step.as) change({ ...began, state: "closed", pause: settings.pause });
          else if (isProbe || failures === settings.failures)
            change({ ...began, state: "open", pause, until: time.now + pause });
          else model = { ...model, failures };
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
  for (let n = 0; n < 3; n += 1) breaker.record(false, breaker.phase());
  breaker.pause(time.now() + 2000);
  wall = 0;
  expect([breaker.openUntil(), breaker.pausedUntil()].map((at) => time.toUnix(at ?? 0))).toEqual([
    1000, 2000,
  ]);
  wall = 1000;
  expect(breaker.mayStart()).toBe(true);
});
