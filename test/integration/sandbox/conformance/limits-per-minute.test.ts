// messaging-service-api.md, "Limits": Per-minute caps, and what of them "Responses at the limit"
// says.
import { expect, test } from "vitest";
import { type Account, minute, second, serviceOfFile } from "./harness.ts";
import { expectBareError } from "./shapes.ts";

const service = await serviceOfFile();

/** How many calls are admitted before the first that is not, and that one. */
async function untilRefused<T>(call: () => Promise<T & { status: number }>, most = 1_300) {
  for (let admitted = 0; admitted <= most; admitted++) {
    const answer = await call();
    if (answer.status >= 400) return { admitted, refused: answer };
  }
  throw new Error(`${most} calls and no refusal`);
}

async function sender(account: Account) {
  const template = { id: await account.template() };
  const to = service.phone("0002");
  return () => account.api("POST", "/messages", { to, template });
}

const me = (account: Account) => () => account.api("GET", "/me");

test("Limits: per-minute caps are counted per account, all keys together", async () => {
  const [account, other] = [await service.account(), await service.account()];
  const { key } = (await account.box<{ key: string }>("POST", "/keys", {})).body;
  for (let count = 0; count < 100; count++) await service.api("GET", "/me", { key });
  const { admitted } = await untilRefused(me(account));
  expect(admitted).toBe(200);
  expect((await service.api("GET", "/me", { key })).status).toBe(429);
  expect((await other.api("GET", "/me")).status).toBe(200);
});

test("Limits: per-minute windows release themselves after a minute", async () => {
  const account = await service.account();
  const send = await sender(account);
  await untilRefused(send);
  await untilRefused(me(account));
  await service.advance(minute);
  expect((await send()).status).toBe(201);
  expect((await account.api("GET", "/me")).status).toBe(200);
  // Within the minute they do not, and what is called in it does not put off their end.
  await service.advance(minute);
  for (let count = 0; count < 150; count++) await account.api("GET", "/me");
  await service.advance(minute - second);
  expect((await untilRefused(me(account))).admitted).toBe(150);
  await service.advance(second);
  expect((await account.api("GET", "/me")).status).toBe(200);
});

test("Per-minute caps: requests, all routes together: 300 on escala", async () => {
  const account = await service.account({ plan: "escala" });
  const send = await sender(account);
  const unknown = "/messages/01900000-0000-7000-8000-000000000000";
  // Successful or not, sends or not: every route counts.
  const calls = [
    send,
    me(account),
    () => account.api("GET", "/contacts?limit=0"),
    () => account.api("GET", unknown),
    () => account.api("GET", "/nada"),
  ];
  for (let count = 0; count < 300; count++) {
    const { status } = await (calls[count % 5] ?? send)();
    expect(status, `call ${count}`).not.toBe(429);
  }
  for (const call of calls) expect((await call()).status).toBe(429);
});

test("Per-minute caps: requests: 1,200 on enterprise", async () => {
  const { admitted, refused } = await untilRefused(
    me(await service.account({ plan: "enterprise" })),
  );
  expect(admitted).toBe(1_200);
  expect(refused.headers["x-ratelimit-limit"]).toBe("1200");
});

test("Per-minute caps: messages with POST /messages: 60 on escala", async () => {
  const { admitted, refused } = await untilRefused(
    await sender(await service.account({ plan: "escala" })),
  );
  expect(admitted).toBe(60);
  expect(refused.headers["x-ratelimit-limit"]).toBe("60");
});

test("Per-minute caps: messages with POST /messages: 300 on enterprise", async () => {
  const { admitted, refused } = await untilRefused(
    await sender(await service.account({ plan: "enterprise" })),
  );
  expect(admitted).toBe(300);
  expect(refused.headers["x-ratelimit-limit"]).toBe("300");
});

test("Per-minute caps: POST /messages counts against both, other requests against their own only", async () => {
  const [account, other] = [await service.account(), await service.account()];
  await untilRefused(await sender(account));
  expect((await untilRefused(me(account))).admitted).toBe(240);
  const send = await sender(other);
  for (let count = 0; count < 250; count++) await other.api("GET", "/me");
  // 50 requests are left, fewer than the 60 messages.
  const { admitted, refused } = await untilRefused(send);
  expect(admitted).toBe(50);
  expect(refused.headers["x-ratelimit-limit"]).toBe("300");
});

test("Responses at the limit: a per-minute cap answers 429 with Retry-After, X-RateLimit-Limit and exactly {error}", async () => {
  const account = await service.account();
  await account.api("GET", "/me");
  await service.advance(20 * second);
  const { refused } = await untilRefused(me(account));
  expectBareError(refused, 429);
  expect(refused.headers["retry-after"]).toMatch(/^[1-9]\d*$/);
  expect(Number(refused.headers["retry-after"])).toBeLessThanOrEqual(60);
  expect(refused.headers["x-ratelimit-limit"]).toBe("300");
  await service.advance(Number(refused.headers["retry-after"]) * second);
  expect((await account.api("GET", "/me")).status).toBe(200);
});

test("Responses at the limit: when the message cap was exceeded the text speaks of messages per minute, otherwise not", async () => {
  const account = await service.account();
  const messages = expectBareError((await untilRefused(await sender(account))).refused, 429);
  const requests = expectBareError((await untilRefused(me(account))).refused, 429);
  expect(messages).toMatch(/mensajes por minuto/i);
  expect(requests).not.toMatch(/mensajes/i);
});

test("Responses at the limit: a request rejected by a per-minute cap did nothing, so that retrying is safe", async () => {
  const account = await service.account();
  const template = { id: await account.template() };
  const to = service.phone("0002");
  const { admitted } = await untilRefused(() => account.api("POST", "/messages", { to, template }));
  const stranger = service.phone();
  const send = () => account.api("POST", "/messages", { to: stranger, template });
  const before = await account.usage();
  expect((await send()).status).toBe(429);
  expect(await account.messages()).toHaveLength(admitted);
  expect((await account.box("GET", `/contacts/${encodeURIComponent(stranger)}`)).status).toBe(404);
  expect((await account.usage()).apiCalls).toStrictEqual(before.apiCalls);
  await service.advance(minute);
  expect((await send()).status).toBe(201);
  expect((await account.messages()).filter(({ phone }) => phone === stranger)).toHaveLength(1);
});

/** Phones that take every message: among strangers there are some whom the provider rejects. */
const phones = (count: number) => Array.from({ length: count }, () => service.phone("0001"));

test("Responses at the limit: bulk sends go through campaigns, which do not count against the API's limits", async () => {
  const account = await service.account();
  const campaign = await account.box("POST", "/campaigns", {
    name: "Masiva",
    templateId: await account.template(),
    phones: phones(500),
    perSecond: 1_000,
  });
  expect(campaign.status, campaign.text).toBe(201);
  await service.advance(5 * second);
  expect((await account.messages()).filter(({ origin }) => origin === "campaign")).toHaveLength(
    500,
  );
  expect((await account.usage()).apiCalls.used).toBe(0);
  expect((await untilRefused(await sender(account))).admitted).toBe(60);
  expect((await untilRefused(me(account))).admitted).toBe(240);
});

test("Responses at the limit: bulk sends run in batches", async () => {
  const account = await service.account();
  await account.box("POST", "/campaigns", {
    name: "Masiva",
    templateId: await account.template(),
    phones: phones(300),
    perSecond: 20,
  });
  const counts: number[] = [];
  for (let step = 0; step < 20; step++) {
    await service.advance(second);
    counts.push((await account.messages()).length);
  }
  expect(counts[0]).toBeLessThan(150);
  expect(new Set(counts).size).toBeGreaterThan(3);
  expect(counts.at(-1)).toBe(300);
});
