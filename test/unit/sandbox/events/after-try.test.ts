import fc from "fast-check";
import { expect, test } from "vitest";
import { afterTry, metaRetry, usualEventRetry } from "../../../../src/sandbox/events/poster.ts";
import type { Posted } from "../../../../src/sandbox/post.ts";

const now = Date.UTC(2026, 10, 21, 12);
const answered = (status: number, retryAfter?: string): Posted => ({
  kind: "answered",
  status,
  headers: retryAfter === undefined ? {} : { "retry-after": retryAfter },
  text: "",
});
const refused = { kind: "unanswered", reason: "ECONNREFUSED" } as const;
const waits = (answer: Posted, tries = 1, speed = 1) => {
  const next = afterTry(answer, tries, usualEventRetry, speed, now);
  return next.status === "waiting" ? next.waitMs : next.status;
};

test("only 2xx is success", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 200, max: 599 }),
      fc.integer({ min: 1, max: 9 }),
      (status, tries) => {
        expect(waits(answered(status), tries) === "delivered").toBe(status < 300);
      },
    ),
  );
});

test("waits 1 s, 5 s, 30 s, 2 min and 10 min, then gives up, saying why", () => {
  expect([1, 2, 3, 4, 5, 6].map((tries) => waits(refused, tries))).toEqual([
    1_000,
    5_000,
    30_000,
    120_000,
    600_000,
    "failed",
  ]);
  expect(afterTry(answered(503), 6, usualEventRetry, 1, now)).toMatchObject({
    reason: "answered 503; given up after 6 tries",
  });
  expect(afterTry(refused, 1, usualEventRetry, 1, now)).toMatchObject({ reason: "ECONNREFUSED" });
});

test("the speed divides the waits", () => {
  expect([1, 2, 3, 4, 5].map((tries) => waits(answered(500), tries, 10))).toEqual([
    100, 500, 3_000, 12_000, 60_000,
  ]);
});

test("Retry-After makes a wait longer, never shorter, and not beyond ten minutes", () => {
  expect(waits(answered(503, "20"))).toBe(20_000);
  expect(waits(answered(503, "20"), 3)).toBe(30_000);
  expect(waits(answered(429, new Date(now + 45_000).toUTCString()))).toBe(45_000);
  expect(waits(answered(503, "86400"))).toBe(600_000);
  expect(waits(answered(503, "soon"))).toBe(1_000);
});

test("at speed 60 a receiver's own seconds are honoured up to ten seconds", () => {
  expect(waits(answered(503, "3"), 1, 60)).toBe(3_000);
  expect(waits(answered(503, "3600"), 1, 60)).toBe(10_000);
});

test("Meta takes only 200, waits longer each time whatever Retry-After says, and gives up after 7 days", () => {
  const after = (status: number, tries: number) =>
    afterTry(answered(status, "3600"), tries, metaRetry, 1, 0);
  expect(after(200, 1)).toEqual({ status: "delivered", reason: null, waitMs: null });
  for (const status of [201, 202, 204, 301, 400, 503])
    expect(after(status, 1)).toMatchObject({ status: "waiting", waitMs: 1_000 });
  const waits = metaRetry.waitsMs;
  expect(waits).toEqual(waits.toSorted((a, b) => a - b));
  expect(Math.round(waits.reduce((sum, wait) => sum + wait, 0) / 86_400_000)).toBe(7);
  expect(after(503, waits.length + 1)).toMatchObject({ status: "failed" });
});
