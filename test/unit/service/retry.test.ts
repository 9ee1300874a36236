import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { defaultRetry, retryWait } from "../../../src/service/client.ts";
import {
  type CallEffect,
  localRefusal,
  ServiceError,
  type ServiceFailure,
} from "../../../src/service/errors.ts";

const planCause = { type: "upgrade" } as const;
const everyFailure: ServiceFailure[] = [
  { kind: "validation", problems: [] },
  { kind: "unauthenticated" },
  { kind: "plan", cause: planCause },
  { kind: "not-found" },
  { kind: "conflict" },
  { kind: "rate-limited", retryAfterMs: 7000, limit: 60, cap: null },
  { kind: "quota", cause: planCause, until: 1 },
  { kind: "blocked" },
  { kind: "unexpected" },
  { kind: "rejected" },
  { kind: "network", code: "ECONNRESET" },
  { kind: "timeout", timeoutMs: 10 },
  { kind: "malformed", problem: "x" },
  { kind: "undocumented" },
];

const failed = (
  failure: ServiceFailure,
  outcome: CallEffect = "not-done",
  status: number | null = null,
  text: string | null = null,
) => new ServiceError({ endpoint: "POST /messages", status, text, outcome, local: false, failure });
const cap = (retryAfterMs: number | null) =>
  failed({ kind: "rate-limited", retryAfterMs, limit: null, cap: "messages" }, "not-done", 429);

const settings = fc.record({
  attempts: fc.integer({ min: 1, max: 2000 }),
  isTemporary: fc.constant(() => true),
});
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const anyError = fc
  .tuple(
    fc.constantFrom(...everyFailure),
    fc.constantFrom<CallEffect>("not-done", "unknown"),
    fc.constantFrom(null, 404, 500, 502, 503),
  )
  .map(([failure, outcome, status]) => failed(failure, outcome, status));

test("never repeats a call that may have been done", () => {
  fc.assert(
    fc.property(anyError, settings, random, (error, chosen, chance) => {
      if (error.outcome === "unknown") expect(retryWait(error, 1, chosen, chance)).toBeNull();
    }),
  );
});

test("every wait is a whole number of milliseconds within its bounds, and there are never more attempts than set", () => {
  fc.assert(
    fc.property(
      anyError,
      fc.integer({ min: 1, max: 3000 }),
      settings,
      random,
      (error, attempt, chosen, chance) => {
        const wait = retryWait(error, attempt, chosen, chance);
        if (wait === null) return;
        expect(attempt).toBeLessThan(chosen.attempts);
        expect(Number.isSafeInteger(wait)).toBe(true);
        const full =
          error.kind === "rate-limited" ? 0 : Math.min(60_000, 1000 * 2 ** (attempt - 1));
        expect(wait).toBeGreaterThanOrEqual(Math.floor(full / 2));
        expect(wait).toBeLessThanOrEqual(full);
      },
    ),
  );
});

test("waits grow with the attempts at equal randomness", () => {
  fc.assert(
    fc.property(
      anyError,
      fc.integer({ min: 1, max: 1000 }),
      settings,
      random,
      (error, attempt, chosen, chance) => {
        const [wait, next] = [attempt, attempt + 1].map((n) =>
          retryWait(error, n, { ...chosen, attempts: 5000 }, chance),
        );
        if (wait === null || wait === undefined) expect(next).toBeNull();
        else expect(next).toBeGreaterThanOrEqual(wait);
      },
    ),
  );
});

describe("which failures", () => {
  test("does not retry a closed client or a local refusal", () => {
    expect(retryWait(failed({ kind: "network", code: "closed" }), 1, defaultRetry, 0)).toBeNull();
    for (const failure of [
      { kind: "unauthenticated" },
      { kind: "blocked" },
      { kind: "quota", cause: null, until: 1 },
    ] as const) {
      expect(retryWait(localRefusal(failure), 1, defaultRetry, 0)).toBeNull();
    }
  });

  test("retries a rejection whose text is temporary", () => {
    const text = "WhatsApp: probá más tarde";
    const asked: string[] = [];
    const isTemporary = (given: string) => asked.push(given) === 1;
    const rejected = failed({ kind: "rejected" }, "not-done", 502, text);
    expect(retryWait(rejected, 1, { ...defaultRetry, isTemporary }, 0)).toBe(500);
    expect(retryWait(rejected, 1, { ...defaultRetry, isTemporary }, 0)).toBeNull();
    expect(asked).toEqual([text, text]);
  });
});

describe("how long", () => {
  const waits = (error: ServiceError, chance: number) =>
    [1, 2, 3, 4].map((attempt) => retryWait(error, attempt, defaultRetry, chance));

  test("1 s, 2 s, 4 s, less by up to half, four attempts in all", () => {
    expect(waits(failed({ kind: "network", code: "x" }), 0)).toEqual([500, 1000, 2000, null]);
    expect(waits(failed({ kind: "network", code: "x" }), 0.999_999)).toEqual([
      1000,
      2000,
      4000,
      null,
    ]);
  });

  test("of a cap: as long as the limiter holds it", () => {
    for (const ms of [null, 0, 5000]) expect(waits(cap(ms), 0.5)).toEqual([0, 0, 0, null]);
  });

  test("above ten minutes: the caller gets the error instead", () => {
    expect(retryWait(cap(600_000), 1, defaultRetry, 0)).toBe(0);
    expect(retryWait(cap(600_001), 1, defaultRetry, 0)).toBeNull();
  });
});
