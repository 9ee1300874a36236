// messaging-service-api.md, "Limits": Monthly quotas and maximums, and what of them "Responses at
// the limit" says.
import { beforeEach, expect, test } from "vitest";
import { type Account, minute, second, serviceOfFile, type Usage } from "./harness.ts";
import { callPlainly } from "./plain-http.ts";
import { startReceiver } from "./receiver.ts";
import { expectBareError, expectUpgrade } from "./shapes.ts";

const service = await serviceOfFile();
beforeEach(() => service.box("DELETE", "/blocks"));

const me = (account: Account) => account.api("GET", "/me");
const usedUp = {
  reason: "limit",
  resource: "apiCalls",
  plan: "escala",
  limit: 300_000,
  used: 300_000,
  suggested: "enterprise",
};

/**
 * Milliseconds from the sandbox's time to the next day 1, 00:00 in Argentina, which is 03:00 UTC
 * all year.
 */
async function untilRenewal(): Promise<number> {
  const now = await service.now();
  const here = new Date(now - 3 * 3_600_000);
  return Date.UTC(here.getUTCFullYear(), here.getUTCMonth() + 1, 1, 3) - now;
}

test("Limits: monthly quotas are renewed on day 1 at 00:00 Argentina time", async () => {
  const account = await service.account();
  await account.box("PUT", "/usage", {
    apiCalls: 300_000,
    webhookDeliveries: 400_000,
    automationSteps: 30,
    automationRequests: 20,
  });
  const before = (await account.usage()).month;
  await service.advance((await untilRenewal()) - minute);
  expectUpgrade(await me(account), 429, usedUp);
  await service.advance(minute - second);
  expectUpgrade(await me(account), 429, usedUp);
  expect((await account.usage()).webhookDeliveries.used).toBe(400_000);
  await service.advance(second);
  expect((await me(account)).status).toBe(200);
  const usage = await account.usage();
  expect(usage.month).not.toBe(before);
  expect(usage.month).toBe(new Date(await service.now()).toISOString().slice(0, 7));
  expect(usage).toMatchObject({
    apiCalls: { used: 1 },
    webhookDeliveries: { used: 0 },
    automationSteps: { used: 0 },
    automationRequests: { used: 0 },
  });
});

test("Monthly quotas and maximums: 300,000 API calls on escala", async () => {
  const [account, other] = [await service.account(), await service.account()];
  await account.box("PUT", "/usage", { apiCalls: 299_998 });
  expect([
    (await me(account)).status,
    (await me(account)).status,
    (await me(account)).status,
  ]).toStrictEqual([200, 200, 429]);
  expect((await account.usage()).apiCalls).toStrictEqual({ used: 300_000, limit: 300_000 });
  expect((await me(other)).status).toBe(200);
});

test("Monthly quotas and maximums: API calls are unlimited on enterprise", async () => {
  const account = await service.account({ plan: "enterprise" });
  await account.box("PUT", "/usage", { apiCalls: 10_000_000 });
  expect((await me(account)).status).toBe(200);
  expect((await account.usage()).apiCalls).toStrictEqual({ used: 10_000_001, limit: null });
});

async function deliveredAfter(
  plan: "escala" | "enterprise",
  webhookDeliveries: number,
  count: number,
) {
  await using receiver = await startReceiver();
  const account = await service.account({ plan });
  const url = receiver.url();
  await account.webhook(url);
  await account.box("PUT", "/usage", { webhookDeliveries });
  for (let n = 0; n < count; n++)
    await account.box("POST", "/events", { event: "message.status", data: { n } });
  await service.delivered();
  return { arrived: receiver.at(url).length, usage: (await account.usage()).webhookDeliveries };
}

test("Monthly quotas and maximums: 500,000 webhook deliveries on escala", async () => {
  expect(await deliveredAfter("escala", 499_997, 5)).toStrictEqual({
    arrived: 3,
    usage: { used: 500_000, limit: 500_000 },
  });
});

test("Monthly quotas and maximums: webhook deliveries are unlimited on enterprise", async () => {
  expect(await deliveredAfter("enterprise", 5_000_000, 5)).toStrictEqual({
    arrived: 5,
    usage: { used: 5_000_005, limit: null },
  });
});

/** Makes so many by `POST /sandbox…`, and one more: gives the answer to that one. */
async function oneTooMany(
  account: Account,
  path: string,
  most: number,
  body: (n: number) => object = () => ({}),
) {
  for (let n = 0; n < most; n++) {
    const answer = await account.box("POST", path, body(n));
    expect(answer.status, `number ${n + 1}: ${answer.text}`).toBe(201);
  }
  return account.box("POST", path, body(most));
}

const hook = (n: number) => ({ url: `http://127.0.0.1:9/${n}` });

test("Monthly quotas and maximums: 10 valid API keys on escala, 50 on enterprise", async () => {
  for (const [plan, limit] of [
    ["escala", 10],
    ["enterprise", 50],
  ] as const) {
    // A new account comes with a key.
    const answer = await oneTooMany(await service.account({ plan }), "/keys", limit - 1);
    expectUpgrade(answer, 402, { reason: "limit", plan, limit, used: limit });
  }
});

test("Monthly quotas and maximums: 5 webhook URLs on escala, 25 on enterprise", async () => {
  for (const [plan, limit] of [
    ["escala", 5],
    ["enterprise", 25],
  ] as const) {
    const answer = await oneTooMany(await service.account({ plan }), "/webhooks", limit, hook);
    expectUpgrade(answer, 402, { reason: "limit", plan, limit, used: limit });
  }
});

test("Monthly quotas and maximums: reaching the maximum of keys or URLs makes a new creation 402, until there is room", async () => {
  const account = await service.account();
  expect((await oneTooMany(account, "/keys", 9)).status).toBe(402);
  expect((await oneTooMany(account, "/webhooks", 5, hook)).status).toBe(402);
  const { data } = (await account.box<{ data: { id: string }[] }>("GET", "/webhooks")).body;
  await account.box("DELETE", `/webhooks/${data[0]?.id}`);
  expect((await account.box("POST", "/webhooks", hook(9))).status).toBe(201);
  await service.box("PATCH", `/accounts/${account.name}`, { plan: "enterprise" });
  expect((await account.box("POST", "/webhooks", hook(10))).status).toBe(201);
  expect((await account.box("POST", "/keys", {})).status).toBe(201);
});

test("Monthly quotas and maximums: an API call is each request with a valid key, successful or not", async () => {
  const account = await service.account();
  const calls = [
    ["GET", "/me", undefined, 200],
    ["GET", "/messages/01900000-0000-7000-8000-000000000000", undefined, 404],
    ["POST", "/contacts", {}, 400],
    ["POST", "/messages", { to: service.phone(), text: "Hola" }, 409],
    ["GET", "/nada", undefined, 404],
    ["DELETE", "/contacts", undefined, 404],
  ] as const;
  for (const [place, [method, path, body, status]] of calls.entries()) {
    expect((await account.api(method, path, body)).status, `${method} ${path}`).toBe(status);
    expect((await account.usage()).apiCalls.used, `${method} ${path}`).toBe(place + 1);
  }
  await service.api("GET", "/me", { key: `${account.key}x` });
  await service.api("GET", "/me");
  expect((await account.usage()).apiCalls.used).toBe(calls.length);
});

test("Monthly quotas and maximums: requests rejected by the per-minute cap do not count", async () => {
  const account = await service.account();
  while ((await me(account)).status === 200);
  for (let count = 0; count < 20; count++) expect((await me(account)).status).toBe(429);
  expect((await account.usage()).apiCalls.used).toBe(300);
});

test("Monthly quotas and maximums: calls to an automation's incoming webhook count, and are refused beyond the quota", async () => {
  const account = await service.account();
  const { hookUrl } = await account.automation({ trigger: "incoming-webhook" });
  const call = () => callPlainly("POST", hookUrl, { body: { phone: service.phone() } });
  await account.box("PUT", "/usage", { apiCalls: 299_999 });
  expect((await call()).status).toBeLessThan(300);
  expect((await account.usage()).apiCalls.used).toBe(300_000);
  expectUpgrade(await call(), 429, usedUp);
  expect(await account.runs()).toHaveLength(1);
});

test("Monthly quotas and maximums: the counter shown is at most half a minute late", async () => {
  const account = await service.account();
  const shown = async () => (await account.box<Usage>("GET", "/usage?shown=1")).body.apiCalls.used;
  expect(await shown()).toBe(0);
  for (let count = 0; count < 3; count++) await me(account);
  expect([0, 3]).toContain(await shown());
  await service.advance(30 * second);
  expect(await shown()).toBe(3);
  await me(account);
  await service.advance(30 * second);
  expect(await shown()).toBe(4);
});

test("Responses at the limit: a monthly quota answers 429 with error and cause, and without Retry-After", async () => {
  const account = await service.account();
  await account.box("PUT", "/usage", { apiCalls: 300_000 });
  const answer = await me(account);
  expect(answer.status).toBe(429);
  expect(answer.body).toStrictEqual({
    error: expect.any(String),
    cause: { type: "upgrade", ...usedUp },
  });
  expect(answer.headers).not.toHaveProperty("retry-after");
  expect(answer.headers).not.toHaveProperty("x-ratelimit-limit");
});

test("Responses at the limit: retrying a used-up quota is useless until day 1 or a change of plan", async () => {
  const account = await service.account();
  await account.box("PUT", "/usage", { apiCalls: 300_000 });
  for (const ms of [0, minute, 60 * minute]) {
    await service.advance(ms);
    expectUpgrade(await me(account), 429, usedUp);
  }
  await service.box("PATCH", `/accounts/${account.name}`, { plan: "enterprise" });
  expect((await me(account)).status).toBe(200);
  await service.box("PATCH", `/accounts/${account.name}`, { plan: "escala" });
  expect((await me(account)).status).toBe(429);
  await service.advance(await untilRenewal());
  expect((await me(account)).status).toBe(200);
});

test("Responses at the limit: invalid keys answer 429 with exactly {error}", async () => {
  const account = await service.account();
  for (let count = 0; count < 20; count++)
    expect((await service.api("GET", "/me", { key: "acme_live_wrong" })).status).toBe(401);
  expectBareError(await service.api("GET", "/me", { key: "acme_live_wrong" }), 429);
  expectBareError(await me(account), 429);
  await service.advance(minute);
  expect((await me(account)).status).toBe(200);
});
