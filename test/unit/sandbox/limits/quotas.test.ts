import { expect, test } from "vitest";
import { quotaMonth } from "../../../../src/sandbox/limits/limits.ts";
import { anAccount, refusal, start } from "./an-account.ts";

/** 2026-12-01T00:00 in Argentina. */
const renewal = Date.UTC(2026, 11, 1, 3);

test("a month begins on day 1 at 00:00 in Argentina", () => {
  expect([renewal - 1, renewal].map(quotaMonth)).toEqual(["2026-11", "2026-12"]);
  expect(quotaMonth(Date.UTC(2027, 0, 1, 2, 59))).toBe("2026-12");
});

test("escala: 300,000 calls a month, then 429 with a cause and no Retry-After, until the renewal", async () => {
  const { limits, account, clock, changes } = anAccount({ now: renewal - 60_001 });
  account.usage.apiCalls = 299_999;
  limits.admit(account, "other");
  expect(changes).toEqual(["account main"]);
  const fault = refusal(() => limits.admit(account, "message"));
  expect(fault).toMatchObject({ status: 429, headers: {} });
  expect(fault?.body).toEqual({
    error: expect.stringContaining("300.000"),
    cause: {
      type: "upgrade",
      reason: "limit",
      resource: "apiCalls",
      plan: "escala",
      limit: 300_000,
      used: 300_000,
      suggested: "enterprise",
    },
  });
  await clock.advance(60_000);
  expect(refusal(() => limits.admit(account, "other"))?.status).toBe(429);
  await clock.advance(1);
  expect(refusal(() => limits.admit(account, "other"))).toBe(null);
  expect(account.usage).toEqual({ month: "2026-12", apiCalls: 1, webhookDeliveries: 0, automationSteps: 0, automationRequests: 0 });
});

test("a greater plan ends the quota's refusals at once: enterprise has none", () => {
  const { limits, account } = anAccount();
  account.usage.apiCalls = 300_000;
  expect(refusal(() => limits.admit(account, "other"))?.status).toBe(429);
  account.plan = "enterprise";
  expect(refusal(() => limits.admit(account, "other"))).toBe(null);
  expect(account.usage.apiCalls).toBe(300_001);
});

test.each([
  ["escala", "webhookDeliveries", 500_000],
  ["trial", "automationSteps", 2_000],
  ["growth", "automationSteps", 25_000],
  ["escala", "automationSteps", 200_000],
  ["trial", "automationRequests", 200],
  ["growth", "automationRequests", 5_000],
  ["escala", "automationRequests", 50_000],
] as const)("%s: %s up to %i a month", async (plan, what, limit) => {
  const { limits, account, clock, changes } = anAccount({ plan });
  account.usage[what] = limit - 1;
  expect(limits.spend(account, what)).toBe(true);
  expect(changes).toEqual(["account main"]);
  expect([limits.spend(account, what), limits.spend(account, what)]).toEqual([false, false]);
  expect(account.usage[what]).toBe(limit);
  await clock.advance(renewal - start);
  expect(limits.spend(account, what)).toBe(true);
  expect(limits.usage(account)[what]).toBe(1);
});

test("enterprise, and a sandbox without limits, spend without end; plans without webhooks have no deliveries", () => {
  const enterprise = anAccount({ plan: "enterprise" });
  enterprise.account.usage.webhookDeliveries = 10 ** 9;
  expect(enterprise.limits.spend(enterprise.account, "webhookDeliveries")).toBe(true);
  const lifted = anAccount({ isUnlimited: true });
  lifted.account.usage.webhookDeliveries = 500_000;
  expect(lifted.limits.spend(lifted.account, "webhookDeliveries")).toBe(true);
  expect(lifted.account.usage.webhookDeliveries).toBe(500_001);
  const trial = anAccount({ plan: "trial", isUnlimited: true });
  expect(trial.limits.spend(trial.account, "webhookDeliveries")).toBe(false);
});

test("the usage shown is that of the last full half minute", async () => {
  const { limits, account, clock } = anAccount({ now: renewal - 60_000 });
  limits.admit(account, "other");
  await clock.advance(29_999);
  limits.admit(account, "other");
  expect(limits.shownUsage(account).apiCalls).toBe(0);
  expect(limits.usage(account).apiCalls).toBe(2);
  await clock.advance(1);
  expect(limits.shownUsage(account).apiCalls).toBe(2);
  limits.spend(account, "automationSteps");
  expect(limits.shownUsage(account)).toMatchObject({ apiCalls: 2, automationSteps: 0 });
  await clock.advance(30_000);
  expect(limits.shownUsage(account)).toMatchObject({ month: "2026-12", apiCalls: 0, automationSteps: 0 });
});
