import fc from "fast-check";
import { expect, test } from "vitest";
import {
  firstSettledAge,
  nextPollAge,
  type PollTimes,
  rankOf,
  restingStatuses,
  waitAfterFailure,
} from "../../../src/reconcile/polls.ts";

const minute = 60_000;
const defaults: PollTimes = { after: minute, giveUpAfter: 72 * 60 * minute, until: "read" };

/** All ages at which a message that keeps this status is polled. */
function ages(status: string | null, times: PollTimes): number[] {
  const found: number[] = [];
  for (let age = nextPollAge(0, status, times); age !== null; age = nextPollAge(age, status, times))
    found.push(age);
  return found;
}

const inMinutes = (list: number[]) => list.map((age) => age / minute);

test("polls at the ages of docs/concepts/reconciliation-and-quotas.md", () => {
  expect(inMinutes(ages("sent", defaults))).toEqual([
    1, 2, 3, 5, 10, 20, 40, 80, 160, 320, 1040, 1760, 2480, 3200, 3920,
  ]);
  expect(ages(null, defaults)).toEqual(ages("pending", defaults));
  expect(inMinutes(ages("delivered", defaults))).toEqual([60, 360, 1440, 2880, 4320]);
  expect(ages("failed", defaults)).toEqual(ages("delivered", defaults));
  for (const status of ["read", "received"]) expect(ages(status, defaults)).toEqual([]);
  expect(ages("delivered", { ...defaults, until: "delivered" })).toEqual([]);
  expect(ages("failed", { ...defaults, until: "delivered" }).length).toBe(5);
  // A word nobody knows is no reason to stop asking.
  expect(ages("Held", defaults)).toEqual(ages("sent", defaults));
});

const someTimes = fc
  .record({
    after: fc.integer({ min: 1000, max: 3_600_000 }),
    factor: fc.integer({ min: 2, max: 20_000 }),
    until: fc.constantFrom("read", "delivered"),
  })
  .map(
    ({ after, factor, until }): PollTimes => ({
      after,
      giveUpAfter: after * factor,
      until: until as PollTimes["until"],
    }),
  );
const someStatus = fc.constantFrom(
  null,
  "pending",
  "sent",
  "delivered",
  "failed",
  "read",
  "received",
  "Held",
);

test("polls from `after` to `giveUpAfter` with growing waits, and settled messages less often", () => {
  fc.assert(
    fc.property(someStatus, someTimes, (status, times) => {
      const all = ages(status, times);
      for (const age of all) {
        expect(age).toBeGreaterThanOrEqual(times.after);
        expect(age).toBeLessThanOrEqual(times.giveUpAfter);
      }
      const waits = all.map((age, n) => age - (all[n - 1] ?? 0));
      for (const [n, wait] of waits.entries())
        expect(wait).toBeGreaterThanOrEqual(waits[n - 1] ?? 0);
      if (status === "delivered" || status === "failed") {
        expect(all.length).toBeLessThanOrEqual(ages("sent", times).length);
        if (all[0] !== undefined) expect(all[0]).toBe(firstSettledAge(times.after));
      }
      if (restingStatuses(times.until).includes(status ?? "")) expect(all).toEqual([]);
    }),
  );
});

test("schedules the next poll after any age and skips missed ones", () => {
  fc.assert(
    fc.property(
      someStatus,
      someTimes,
      fc.integer({ min: 0, max: 400_000_000 }),
      (status, times, age) => {
        const next = nextPollAge(age, status, times);
        if (next === null) return;
        expect(next).toBeGreaterThan(age);
        // None of its regular ages lies between.
        expect(ages(status, times).filter((each) => each > age && each < next)).toEqual([]);
        expect(ages(status, times)).toContain(next);
      },
    ),
  );
});

test("ranks open before settled messages, and the least polled first", () => {
  fc.assert(
    fc.property(someStatus, someStatus, fc.nat(100), fc.nat(100), (one, other, polls, more) => {
      expect(rankOf(one, polls)).toBeLessThanOrEqual(rankOf(one, polls + more));
      expect(rankOf(one, polls)).toBeLessThanOrEqual(31);
      if (one === "sent" && other === "delivered")
        expect(rankOf(one, polls + more)).toBeLessThan(rankOf(other, polls));
    }),
  );
  expect(rankOf(null, 0)).toBe(0);
});

test("doubles the wait after failures up to an hour", () => {
  expect([1, 2, 3, 6, 7, 8, 50].map((failures) => waitAfterFailure(failures) / minute)).toEqual([
    1, 2, 4, 32, 60, 60, 60,
  ]);
});
