// messaging-service-api.md, "Authentication", and "Endpoints": Management of API keys and webhook
// URLs.
import { beforeEach, expect, test } from "vitest";
import { type Account, minute, second, serviceOfFile } from "./harness.ts";
import { startReceiver } from "./receiver.ts";
import { expectBareError, expectError, isSignedBy, signatureHeaders } from "./shapes.ts";

const service = await serviceOfFile();
// Every test calls from the same address: none is to suffer for the bad keys of another.
beforeEach(() => service.box("DELETE", "/blocks"));

interface Key {
  readonly id: string;
  readonly key: string;
}

async function addKey(account: Account): Promise<Key> {
  const answer = await account.box<Key>("POST", "/keys", { label: "otra" });
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
}

test("Management of API keys and webhook URLs: both are created in the account settings, and not by the API", async () => {
  const account = await service.account();
  const { key } = await addKey(account);
  expect((await service.api("GET", "/me", { key })).status).toBe(200);
  expect((await account.webhook("http://127.0.0.1:9/hook")).url).toBe("http://127.0.0.1:9/hook");
  for (const path of ["/keys", "/api-keys", "/webhooks"])
    expectError(await account.api("POST", path, {}), 404);
});

test("Authentication: every request carries Authorization: Bearer and the key", async () => {
  const { key } = await service.account();
  const get = (headers: Record<string, string>) => service.api("GET", "/me", { headers });
  expect((await get({ authorization: `Bearer ${key}` })).status).toBe(200);
  for (const headers of [
    {},
    { authorization: key },
    { authorization: `Basic ${key}` },
    { "x-api-key": key },
    { authorization: "Bearer" },
  ]) {
    expectError(await get(headers), 401);
  }
  // Every request: also one to a path that does not exist.
  expectError(await service.api("GET", "/nada"), 401);
  expectError(await service.api("GET", "/nada", { key }), 404);
});

test("Authentication: keys are created in the account settings and start with a fixed live-key prefix", async () => {
  const [one, other] = [await service.account(), await service.account({ plan: "enterprise" })];
  const keys = [one.key, other.key, (await addKey(one)).key, (await addKey(other)).key];
  const prefixes = keys.map((key) => key.slice(0, key.lastIndexOf("_") + 1));
  expect(new Set(prefixes).size).toBe(1);
  expect(prefixes[0]).toMatch(/live_$/);
  expect(new Set(keys).size).toBe(4);
});

test("Authentication: keys are per account, and all keys of an account add up in the limits", async () => {
  const [account, other] = [await service.account(), await service.account()];
  const second = await addKey(account);
  const call = (key: string) => service.api("GET", "/me", { key });
  for (let count = 0; count < 150; count++) {
    expect((await call(account.key)).status).toBe(200);
    expect((await call(second.key)).status).toBe(200);
  }
  expect([(await call(account.key)).status, (await call(second.key)).status]).toStrictEqual([
    429, 429,
  ]);
  expect((await call(other.key)).status).toBe(200);
  expect((await account.usage()).apiCalls.used).toBe(300);
});

test("Authentication: a revoked key gives 401 and does not count toward the key maximum", async () => {
  const account = await service.account();
  const keys: Key[] = [];
  for (let count = 1; count < 10; count++) keys.push(await addKey(account));
  expect((await account.box("POST", "/keys", {})).status).toBe(402);
  const revoked = keys[3];
  expect((await service.api("GET", "/me", { key: revoked?.key ?? "" })).status).toBe(200);
  await account.box("DELETE", `/keys/${revoked?.id}`);
  expectError(await service.api("GET", "/me", { key: revoked?.key ?? "" }), 401);
  await addKey(account);
  expect((await account.box("POST", "/keys", {})).status).toBe(402);
  expect((await service.api("GET", "/me", { key: keys[0]?.key ?? "" })).status).toBe(200);
});

test("Authentication: a key missing, misspelled or revoked gives 401", async () => {
  const account = await service.account();
  const { id, key } = await addKey(account);
  await account.box("DELETE", `/keys/${id}`);
  expectError(await service.api("GET", "/me"), 401);
  for (const wrong of [
    `${account.key}x`,
    account.key.slice(0, -1),
    account.key.toUpperCase(),
    key,
  ]) {
    expectError(await service.api("GET", "/me", { key: wrong }), 401);
  }
});

test("Authentication: more than 20 bad keys a minute from one address block it for one minute, also for valid keys", async () => {
  const { key } = await service.account();
  const good = (from?: string) =>
    service.api("GET", "/me", { key, ...(from === undefined ? {} : { from }) });
  const bad = () => service.api("GET", "/me", { key: "acme_live_wrong" });
  for (let count = 0; count < 20; count++) expectError(await bad(), 401);
  // 20 are not more than 20.
  expect((await good()).status).toBe(200);
  expectBareError(await bad(), 429);
  expectBareError(await good(), 429);
  // The block is the address's own: the key is as good as before elsewhere.
  expect((await good("127.0.0.2")).status).toBe(200);
  await service.advance(minute - second);
  expectBareError(await good(), 429);
  await service.advance(second);
  expect((await good()).status).toBe(200);
  expectError(await bad(), 401);
});

test("Authentication: 20 bad keys in each minute block nobody", async () => {
  const { key } = await service.account();
  for (let round = 0; round < 3; round++) {
    for (let count = 0; count < 20; count++)
      expectError(await service.api("GET", "/me", { key: "acme_live_wrong" }), 401);
    await service.advance(minute);
  }
  expect((await service.api("GET", "/me", { key })).status).toBe(200);
});

test("Authentication: webhook events are signed over the raw body with the webhook's secret, in x-<service>-signature", async () => {
  await using receiver = await startReceiver();
  const account = await service.account();
  const [first, second] = [receiver.url(), receiver.url()];
  const secrets = [
    (await account.webhook(first)).secret,
    (await account.webhook(second, { secret: "otro secreto" })).secret,
  ];
  expect(secrets[1]).toBe("otro secreto");
  await account.box("POST", "/events", {
    event: "message.status",
    data: { texto: 'ñandú \u2028 🐦 / " < >', n: 1.5 },
  });
  const posts = [(await receiver.arrivals(first, 1))[0], (await receiver.arrivals(second, 1))[0]];
  for (const [place, posted] of posts.entries()) {
    if (posted === undefined) return expect.unreachable();
    expect(signatureHeaders(posted)).toHaveLength(1);
    expect(isSignedBy(secrets[place] ?? "", posted)).toBe(true);
    expect(isSignedBy(secrets[1 - place] ?? "", posted)).toBe(false);
    expect(
      isSignedBy(secrets[place] ?? "", { ...posted, raw: Buffer.from(`${posted.raw} `) }),
    ).toBe(false);
  }
});

test("Authentication: the tokens that sign automation requests start with ats_", async () => {
  const account = await service.account();
  const tokens = [(await account.automation()).token, (await account.automation()).token];
  for (const token of tokens) expect(token).toMatch(/^ats_\S+$/);
  expect(new Set(tokens).size).toBe(2);
});
