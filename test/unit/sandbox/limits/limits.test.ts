import fc from "fast-check";
import { expect, test } from "vitest";
import { ApiFault } from "../../../../src/sandbox/api/fault.ts";
import { createBusiestMinute, createLimits } from "../../../../src/sandbox/limits.ts";
import { type AccountRecord, createWorld, type Plan } from "../../../../src/sandbox/world.ts";
import { createManualClock } from "../../../harness/manual-clock.ts";

function anAccount({ plan = "escala" as Plan, isUnlimited = false } = {}) {
  const clock = createManualClock(Date.UTC(2026, 10, 15, 12, 0, 30));
  const world = createWorld({ changed() {} });
  const limits = createLimits({ world, clock }, isUnlimited);
  const owned = { id: "main", account: "main", createdAt: clock.now() };
  const usage = {
    month: "2026-11",
    apiCalls: 0,
    webhookDeliveries: 0,
    automationSteps: 0,
    automationRequests: 0,
  };
  const account: AccountRecord = {
    ...owned,
    plan,
    contactLimit: null,
    isConnected: true,
    numbers: [],
    usage,
  };
  world.accounts.put(account);
  return { clock, limits, account };
}

function refusal(act: () => unknown): ApiFault | null {
  try {
    act();
    return null;
  } catch (error) {
    if (error instanceof ApiFault) return error;
    throw error;
  }
}

test("a greater plan is felt at once", () => {
  const { limits, account } = anAccount();
  for (let call = 0; call < 300; call += 1) limits.admit(account, "other");
  account.plan = "enterprise";
  for (let call = 300; call < 1_200; call += 1) limits.admit(account, "other");
  expect(refusal(() => limits.admit(account, "other"))?.headers["x-ratelimit-limit"]).toBe("1200");
});

test("unlimited: nothing is refused, everything is counted; a plan without the API stays without", () => {
  const { limits, account } = anAccount({ isUnlimited: true });
  Object.assign(account.usage, { apiCalls: 300_000, webhookDeliveries: 500_000 });
  for (let call = 0; call < 2_000; call += 1) limits.admit(account, "message");
  for (let call = 0; call < 100; call += 1) expect(limits.admitToolCall(account, "app")).toBe(true);
  expect(limits.usage(account).apiCalls).toBe(302_000);
  expect(limits.perMinute("main")).toEqual({
    requests: { last: 2_000, peak: 2_000 },
    messages: { last: 2_000, peak: 2_000 },
    refused: 0,
  });
  expect(limits.spend(account, "webhookDeliveries")).toBe(true);
  expect(account.usage.webhookDeliveries).toBe(500_001);
  account.plan = "trial";
  expect(refusal(() => limits.admit(account, "other"))?.status).toBe(402);
  expect(limits.spend(account, "webhookDeliveries")).toBe(false);
});

/** Calls of one account, each some time after the one before. */
const someCalls = fc.array(
  fc.record({
    // Long waits, so that windows end; and bursts, so that caps are met.
    waitMs: fc.oneof(
      { weight: 6, arbitrary: fc.constant(0) },
      fc.integer({ min: 1, max: 2_000 }),
      fc.integer({ min: 0, max: 130_000 }),
    ),
    call: fc.constantFrom("message" as const, "other" as const),
    burst: fc.integer({ min: 1, max: 120 }),
  }),
  { maxLength: 60 },
);
const caps = {
  escala: { requests: 300, messages: 60 },
  enterprise: { requests: 1_200, messages: 300 },
} as const;

test("windows: never more than the cap let in, nobody refused who need not be, refused calls count nowhere", async () => {
  await fc.assert(
    fc.asyncProperty(
      someCalls,
      fc.constantFrom("escala" as const, "enterprise" as const),
      async (steps, plan) => {
        const { limits, account, clock } = anAccount({ plan });
        const cap = caps[plan];
        // The rule itself, from the list of all calls that were let in: a window opens with the
        // first after the last one ended.
        const model = {
          requests: { openedAt: -Infinity, count: 0 },
          messages: { openedAt: -Infinity, count: 0 },
        };
        let admitted = 0;
        let refusals = 0;
        for (const { waitMs, call, burst } of steps) {
          await clock.advance(waitMs);
          const now = clock.now();
          for (const window of Object.values(model)) {
            if (now >= window.openedAt + 60_000) window.count = 0;
          }
          for (let one = 0; one < burst; one += 1) {
            const full =
              call === "message" && model.messages.count >= cap.messages ? "messages" : "requests";
            const fault = refusal(() => limits.admit(account, call));
            if (model[full].count >= cap[full]) {
              expect(fault?.headers["x-ratelimit-limit"]).toBe(String(cap[full]));
              const seconds = Number(fault?.headers["retry-after"]);
              expect(seconds * 1_000).toBeGreaterThanOrEqual(model[full].openedAt + 60_000 - now);
              expect((seconds - 1) * 1_000).toBeLessThan(model[full].openedAt + 60_000 - now);
              refusals += 1;
              continue;
            }
            expect(fault).toBe(null);
            admitted += 1;
            for (const window of call === "message"
              ? [model.messages, model.requests]
              : [model.requests]) {
              if (window.count === 0) window.openedAt = now;
              window.count += 1;
            }
          }
        }
        expect(limits.usage(account).apiCalls).toBe(admitted);
        expect(limits.perMinute("main").refused).toBe(refusals);
      },
    ),
    { numRuns: 60 },
  );
});

test("the busiest minute is as counted by hand over every minute that ends at an arrival", () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          fc.constant(0),
          fc.integer({ min: 0, max: 500 }),
          fc.integer({ min: 0, max: 70_000 }),
        ),
        { maxLength: 400 },
      ),
      (waits) => {
        const measure = createBusiestMinute();
        const arrivals: number[] = [];
        let now = 1_000_000;
        for (const wait of waits) {
          now += wait;
          arrivals.push(now);
          measure.add(now);
        }
        const inMinuteTo = (end: number) =>
          arrivals.filter((at) => at > end - 60_000 && at <= end).length;
        expect(measure.peak()).toBe(Math.max(0, ...arrivals.map(inMinuteTo)));
        expect(measure.last(now + 30_000)).toBe(inMinuteTo(now + 30_000));
      },
    ),
  );
});

test("a clock set back loses nothing of the busiest minute", () => {
  const measure = createBusiestMinute();
  measure.add(100_000);
  measure.add(50_000);
  expect([measure.last(50_000), measure.peak()]).toEqual([2, 2]);
  expect(measure.last(160_000)).toBe(0);
});
