import fc from "fast-check";
import { expect, test } from "vitest";
import type { BudgetFacts, Calls } from "../../../src/reconcile/polls.ts";
import { budgetOf, dayMs, lastsUntil } from "../../../src/reconcile/polls.ts";
import { quotaDay, quotaMonth } from "../../../src/service/limits/caps.ts";

const none = { polls: 0, others: 0 };

function facts(at: number, parts: Partial<BudgetFacts> = {}): BudgetFacts {
  return {
    quota: 150_000,
    month: quotaMonth(at),
    day: quotaDay(at),
    now: at,
    before: none,
    today: none,
    ...parts,
  };
}

test("uses the days and months of Argentina", () => {
  const at = Date.UTC(2026, 10, 1, 2, 59);
  expect(new Date(quotaDay(at)).toISOString()).toBe("2026-10-31T03:00:00.000Z");
  expect(Object.values(quotaMonth(at)).map((ms) => new Date(ms).toISOString())).toEqual([
    "2026-10-01T03:00:00.000Z",
    "2026-11-01T03:00:00.000Z",
  ]);
  expect(new Date(quotaDay(at + 60_000)).toISOString()).toBe("2026-11-01T03:00:00.000Z");
});

test("reserves a tenth for sends and divides the rest evenly among the days", () => {
  const dawn = Date.UTC(2026, 10, 1, 3);
  expect(budgetOf(facts(dawn)).mayPoll).toBe(Math.floor((150_000 * 0.9) / 30 / 4));
  expect(budgetOf(facts(dawn + dayMs - 1)).mayPoll).toBe(4_499);
});

test("does not limit an unlimited plan", () => {
  expect(budgetOf(facts(Date.UTC(2026, 10, 9), { quota: null }))).toMatchObject({
    left: null,
    mayPoll: Number.MAX_SAFE_INTEGER,
  });
});

test("reserves for sends their daily average so far", () => {
  const noon = Date.UTC(2026, 10, 16, 15);
  // 15 days have gone and 15 are left: 60,000 sends until now, as many to come; 90,000 are left.
  const { mayPoll } = budgetOf(facts(noon, { before: { polls: 0, others: 60_000 } }));
  expect(mayPoll).toBe(Math.floor((30_000 / 15) * (0.25 + 0.75 / 2)));
});

const someFacts = fc
  .record({
    quota: fc.integer({ min: 0, max: 300_000 }),
    at: fc.integer({ min: Date.UTC(2026, 0, 1), max: Date.UTC(2027, 11, 31) }),
    before: fc.record({ polls: fc.nat(200_000), others: fc.nat(200_000) }),
    today: fc.record({ polls: fc.nat(20_000), others: fc.nat(20_000) }),
  })
  .map(({ at, ...parts }) => facts(at, parts));

test("allows from 0 to what is left, and more as the day passes", () => {
  fc.assert(
    fc.property(someFacts, fc.nat(dayMs), (some, later) => {
      const { left, mayPoll } = budgetOf(some);
      expect(mayPoll).toBeGreaterThanOrEqual(0);
      expect(mayPoll).toBeLessThanOrEqual(left ?? 0);
      const now = Math.min(some.now + later, some.day + dayMs - 1);
      expect(budgetOf({ ...some, now }).mayPoll).toBeGreaterThanOrEqual(mayPoll);
    }),
  );
});

test("never uses up the quota within a month, and leaves the last day its part", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 300, max: 300_000 }),
      fc.integer({ min: 0, max: 60 }),
      (quota, percent) => {
        const month = quotaMonth(Date.UTC(2026, 10, 15));
        const sendsADay = Math.floor((quota * percent) / 100 / 30);
        const before = { polls: 0, others: 0 };
        let lastDay = 0;
        for (let day = month.from; day < month.until; day += dayMs) {
          const today = { polls: 0, others: 0 };
          for (const hour of [0, 6, 12, 18, 23]) {
            if (hour === 12) today.others += sendsADay;
            const { mayPoll } = budgetOf(
              facts(day + hour * 3_600_000, { quota, before: { ...before }, today: { ...today } }),
            );
            today.polls += mayPoll;
          }
          before.polls += today.polls;
          before.others += today.others;
          lastDay = today.polls;
        }
        expect(before.polls + before.others).toBeLessThanOrEqual(quota);
        if (percent <= 50) expect(lastDay).toBeGreaterThan(0);
      },
    ),
    { numRuns: 200 },
  );
});

test("estimates when the quota would be used up", () => {
  const noon = Date.UTC(2026, 10, 10, 15);
  const spent = facts(noon, {
    before: { polls: 100_000, others: 0 },
    today: { polls: 1_000, others: 0 },
  });
  // 49,000 are left; half a day brought 13,000 questions.
  const at = lastsUntil(spent, 12_000);
  expect(at).toBe(noon + Math.round((49_000 / 13_000) * (dayMs / 2)));
  expect(lastsUntil(spent, 0)).toBeNull();
  expect(lastsUntil({ ...spent, quota: null }, 12_000)).toBeNull();
});

test("offers polls the part of the month that sends do not need", () => {
  const noon = Date.UTC(2026, 10, 10, 15);
  const of = (before: Calls, today: Calls) => budgetOf(facts(noon, { before, today })).spare;
  // A share of 150,000: nothing was sent, and a tenth of what is left is kept for sends all the
  // same.
  expect(of({ polls: 0, others: 0 }, { polls: 0, others: 0 })).toBe(135_000);
  expect(of({ polls: 50_000, others: 0 }, { polls: 1_000, others: 0 })).toBe(89_000);
  expect(of({ polls: 0, others: 0 }, { polls: 135_000, others: 0 })).toBe(0);
  // Sends that will need all that is left.
  expect(of({ polls: 0, others: 90_000 }, { polls: 0, others: 0 })).toBe(0);
  expect(budgetOf(facts(noon, { quota: null })).spare).toBe(Number.MAX_SAFE_INTEGER);
});
