import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decide, settledBy } from "../../../src/deliver/decide.ts";
import { retrySchema } from "../../../src/deliver/destinations/destination.ts";
import { type AttemptResult, attemptErrors, isOutage } from "../../../src/model/delivery.ts";

const day = 24 * 3_600_000;
const retry = retrySchema.parse({});
const middle = () => 0.5;
const answered = (status: number, retryAfterMs: number | null = null): AttemptResult => ({
  kind: "answered",
  status,
  retryAfterMs,
});

const failure: fc.Arbitrary<AttemptResult> = fc.oneof(
  fc
    .constantFrom(...attemptErrors.filter((error) => error !== "aborted" && !isOutage(error)))
    .map((error): AttemptResult => ({ kind: "failed", error })),
  fc
    .record({
      status: fc.integer({ min: 300, max: 599 }).filter((status) => status !== 410),
      retryAfterMs: fc.option(fc.integer({ min: 0, max: day })),
    })
    .map(({ status, retryAfterMs }) => answered(status, retryAfterMs)),
);
const schedule = fc.array(fc.integer({ min: 0, max: 30 * day }), { minLength: 1, maxLength: 20 });
const share = fc.double({ min: 0, max: 1, noNaN: true });
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

test("delivers on any 2xx", () => {
  for (const status of [200, 201, 202, 204, 299])
    expect(decide(answered(status), 99, retry, 0, middle)).toEqual({ kind: "delivered" });
  for (const status of [300, 304, 400])
    expect(decide(answered(status), 1, retry, 0, middle).kind).toBe("retry");
});

test("410 stops the destination, even on the last attempt", () => {
  expect(decide(answered(410), 1, retry, 0, middle)).toMatchObject({ kind: "stop" });
  expect(decide(answered(410), 10, retry, 0, middle)).toMatchObject({ kind: "stop" });
});

test("does not count an attempt that the relay's shutdown aborted", () => {
  expect(decide({ kind: "failed", error: "aborted" }, 10, retry, 0, middle)).toEqual({
    kind: "interrupted",
  });
});

test("follows the default schedule, then gives up with the last result as the reason", () => {
  const waits = [];
  for (let attempt = 1; attempt < 10; attempt += 1) {
    const decision = decide(answered(503), attempt, retry, 1000, middle);
    if (decision.kind === "retry") waits.push((decision.at - 1000) / 1000);
  }
  expect(waits).toEqual([5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400]);
  expect(decide(answered(503), 10, retry, 0, middle)).toEqual({
    kind: "dead",
    reason: "out of attempts (10): the last was answered 503",
    pauseUntil: null,
  });
  expect(decide({ kind: "failed", error: "timeout" }, 10, retry, 0, middle)).toEqual({
    kind: "dead",
    reason: "out of attempts (10): the last failed (timeout)",
    pauseUntil: null,
  });
});

test("delivers what a queue or stream accepted", () => {
  expect(decide({ kind: "taken" }, 99, retry, 0, middle)).toEqual({ kind: "delivered" });
});

test("does not count attempts during an outage of a destination's Redis", () => {
  const outages = attemptErrors.filter(isOutage);
  expect(outages).toEqual(
    expect.arrayContaining(["unreachable", "hung", "full", "read-only", "credentials"]),
  );
  for (const error of outages) {
    const decision = decide({ kind: "failed", error }, 1_000_000, retry, 1000, middle);
    expect(decision).toEqual({ kind: "retry", at: 6000, pauseUntil: null, spares: true });
    if (decision.kind === "retry")
      expect(settledBy(decision, 1000)).toEqual({ to: "waiting", nextAt: 6000, spares: true });
  }
  // A Redis that is well and refuses the one command: the schedule counts.
  const refused = decide({ kind: "failed", error: "refused" }, 1, retry, 1000, middle);
  expect(refused).toEqual({ kind: "retry", at: 6000, pauseUntil: null });
  expect(refused.kind === "retry" && settledBy(refused, 1000)).toEqual({
    to: "waiting",
    nextAt: 6000,
  });
  expect(decide({ kind: "failed", error: "refused" }, 10, retry, 1000, middle)).toMatchObject({
    kind: "dead",
  });
});

describe("Retry-After", () => {
  test("postpones the next attempt when it is later than the schedule", () => {
    expect(decide(answered(503, 60_000), 1, retry, 0, middle)).toEqual({
      kind: "retry",
      at: 60_000,
      pauseUntil: null,
    });
    expect(decide(answered(503, 1000), 1, retry, 0, middle)).toEqual({
      kind: "retry",
      at: 5000,
      pauseUntil: null,
    });
  });

  test("with 429 pauses the destination instead, also on the last attempt", () => {
    expect(decide(answered(429, 60_000), 1, retry, 100, middle)).toEqual({
      kind: "retry",
      at: 5100,
      pauseUntil: 60_100,
    });
    expect(decide(answered(429, 60_000), 10, retry, 100, middle)).toMatchObject({
      kind: "dead",
      pauseUntil: 60_100,
    });
    expect(decide(answered(429, 1000), 1, retry, 100, middle)).toEqual({
      kind: "retry",
      at: 5100,
      pauseUntil: 1100,
    });
    expect(decide(answered(429, 0), 1, retry, 100, middle)).toMatchObject({ pauseUntil: null });
    expect(decide(answered(429), 1, retry, 100, middle)).toMatchObject({ pauseUntil: null });
  });
});

test("makes as many attempts as the schedule has entries", () => {
  fc.assert(
    fc.property(schedule, failure, share, random, (waits, result, jitter, r) => {
      let attempt = 1;
      while (decide(result, attempt, { schedule: waits, jitter }, 0, () => r).kind === "retry")
        attempt += 1;
      expect(attempt).toBe(waits.length);
      expect(decide(result, attempt, { schedule: waits, jitter }, 0, () => r).kind).toBe("dead");
    }),
  );
});

test("schedules within the jitter unless Retry-After is later, never in the past", () => {
  const now = fc.integer({ min: 0, max: 4e12 });
  fc.assert(
    fc.property(
      schedule,
      fc.nat(19),
      failure,
      share,
      random,
      now,
      (waits, before, result, jitter, r, at) => {
        const decision = decide(result, before + 1, { schedule: waits, jitter }, at, () => r);
        const wait = waits[before + 1];
        if (wait === undefined) {
          expect(decision.kind).toBe("dead");
          return;
        }
        if (decision.kind !== "retry") throw new Error(decision.kind);
        // What holds the whole destination does not put off the delivery.
        const asked =
          result.kind === "answered" && result.status !== 429 ? (result.retryAfterMs ?? 0) : 0;
        expect(Number.isInteger(decision.at)).toBe(true);
        expect(decision.at).toBeGreaterThanOrEqual(
          at + Math.max(asked, Math.floor(wait * (1 - jitter))),
        );
        expect(decision.at).toBeLessThanOrEqual(
          at + Math.max(asked, Math.ceil(wait * (1 + jitter))),
        );
      },
    ),
  );
});
