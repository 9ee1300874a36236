import { join } from "node:path";
import { expect, test } from "vitest";
import {
  type Sandbox,
  type SandboxOptions,
  startSandbox,
} from "../../../../src/sandbox/start-sandbox.ts";
import { tempFolder } from "../../../harness/temp-folder.ts";
import { longestWaitMs, until } from "../../../harness/until.ts";
import { freePort } from "../../../setup/free-port.ts";
import { openCallback } from "./callback.ts";

type Callback = Awaited<ReturnType<typeof openCallback>>;

const startFor = (callback: Callback, options: SandboxOptions = {}) =>
  startSandbox({
    format: "meta",
    secret: callback.appSecret,
    verifyToken: callback.verifyToken,
    webhooks: [{ url: callback.url }],
    seed: "1",
    isUnlimited: true,
    ...options,
  });

async function graph(
  sandbox: Sandbox,
  body: object,
  { key = sandbox.key, number = sandbox.phoneNumberId } = {},
) {
  const answer = await fetch(`${sandbox.url}/v24.0/${number}/messages`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ messaging_product: "whatsapp", ...body }),
  });
  return {
    status: answer.status,
    body: (await answer.json()) as { messages: { id: string }[]; error: Record<string, unknown> },
  };
}

const welcome = { type: "template", template: { name: "bienvenida", language: { code: "es_AR" } } };

/** Sends to each, and lets their lives go on to the end. */
async function sendAll(sandbox: Sandbox, phones: readonly string[]): Promise<string[]> {
  const wamids: string[] = [];
  for (const to of phones)
    wamids.push((await graph(sandbox, { to, ...welcome })).body.messages[0]?.id ?? "");
  await live(sandbox);
  return wamids;
}

async function live(sandbox: Sandbox): Promise<void> {
  // In steps: what waits for a post's answer comes later than that.
  for (let step = 0; step < 20; step += 1) {
    sandbox.clock.advance(10_000);
    await sandbox.idle(longestWaitMs);
  }
}

const people = (count: number) =>
  Array.from({ length: count }, (_, place) => `54911555${String(5_000 + place)}`);

test("shakes hands, sends by the Graph API, and posts signed statuses", async () => {
  const callback = await openCallback();
  await using sandbox = await startFor(callback);
  expect(callback.handshakes).toEqual([
    {
      query: {
        "hub.mode": "subscribe",
        "hub.challenge": expect.stringMatching(/^[1-9]\d{9}$/),
        "hub.verify_token": callback.verifyToken,
      },
      answered: 200,
    },
  ]);
  const { status, body } = await graph(sandbox, {
    to: "5491155550001",
    ...welcome,
    biz_opaque_callback_data: "order/1",
  });
  expect(status).toBe(200);
  expect(body).toEqual({
    messaging_product: "whatsapp",
    contacts: [{ input: "5491155550001", wa_id: "5491155550001" }],
    messages: [{ id: expect.stringMatching(/^wamid\./), message_status: "accepted" }],
  });
  const wamid = body.messages[0]?.id;
  await live(sandbox);
  expect(callback.statuses()).toEqual([`${wamid} sent`, `${wamid} delivered`]);
  expect(callback.taken()[0]).toEqual({
    wabaId: "102290129340398",
    field: "messages",
    phoneNumberId: sandbox.phoneNumberId,
    list: "statuses",
    contacts: [
      {
        profile: { name: "José Muñoz" },
        wa_id: "5491155550001",
        user_id: expect.stringMatching(/^AR\.\d{16}$/),
      },
    ],
    item: {
      id: wamid,
      status: "sent",
      timestamp: expect.stringMatching(/^\d{10}$/),
      recipient_id: "5491155550001",
      recipient_user_id: expect.stringMatching(/^AR\.\d{16}$/),
      biz_opaque_callback_data: "order/1",
      pricing: { billable: true, pricing_model: "PMP", type: "regular", category: "utility" },
    },
  });
  // ASCII, with slashes escaped: what was signed are these bytes.
  const text = callback.posts[0]?.body.toString("latin1") ?? "";
  expect(text).toContain("Jos\\u00e9 Mu\\u00f1oz");
  expect(text).toContain("order\\/1");
  expect(text).toMatch(/^[ -~]*$/);
});

test("posts nothing to a URL before its handshake succeeded, and refuses to save one that fails", async () => {
  const callback = await openCallback();
  await using sandbox = await startFor(callback, { verifyToken: "another" });
  expect(callback.handshakes.map(({ answered }) => answered)).toEqual([403]);
  await sendAll(sandbox, people(1));
  expect(callback.posts).toEqual([]);
  const refused = await sandbox.control("POST", "/webhooks", { url: `${callback.url}/two` });
  expect([refused.status, refused.body]).toEqual([
    400,
    { error: expect.stringContaining("the handshake with") },
  ]);
  const saved = await sandbox.control("POST", "/webhooks", {
    url: `${callback.url}/three`,
    verifyToken: callback.verifyToken,
  });
  expect(saved.status).toBe(201);
  expect(sandbox.webhooks().map(({ url, meta }) => [url, meta?.isVerified])).toEqual([
    [callback.url, false],
    [`${callback.url}/three`, true],
  ]);
  const [three] = sandbox.webhooks().slice(1);
  // A port that browsers, and fetch, block.
  const moved = await sandbox.control("PATCH", `/webhooks/${three?.id}`, {
    url: "http://127.0.0.1:1/",
  });
  expect([moved.status, moved.body]).toEqual([
    400,
    { error: expect.stringContaining("ECONNREFUSED") },
  ]);
  await sendAll(sandbox, people(1));
  expect(callback.statuses().length).toBeGreaterThan(1);
});

test("repeats a request until it is answered exactly 200", async () => {
  const callback = await openCallback();
  await using sandbox = await startFor(callback);
  const answers = [204, 202, 503, 302];
  callback.answerWith((post) => answers[post - 1] ?? 200);
  const wamid = (await graph(sandbox, { to: "5491155550003", ...welcome })).body.messages[0]?.id;
  await until("it is answered 200", () => {
    sandbox.clock.advance(60_000);
    return callback.statuses().length > 0;
  });
  expect(callback.posts.map(({ answered }) => answered)).toEqual([...answers, 200]);
  expect(new Set(callback.posts.map(({ body }) => body.toString())).size).toBe(1);
  expect(callback.statuses()).toEqual([`${wamid} sent`]);
});

test("gathers updates of several numbers into one request", async () => {
  const callback = await openCallback();
  const phoneNumberIds = ["106540352242922", "106540352242923"];
  await using sandbox = await startFor(callback, {
    phoneNumberIds,
    faults: { meta: { batch: 1_000 } },
  });
  sandbox.clock.freeze();
  const other = (await sandbox.control("POST", "/accounts", { name: "other" })).body as {
    key: string;
    phoneNumberId: string;
  };
  for (const number of phoneNumberIds)
    await graph(sandbox, { to: "5491155550003", ...welcome }, { number });
  await sandbox.control("POST", "/customers/+5491155550001/messages", {
    text: "¿Hola?",
    phoneNumberId: phoneNumberIds[1],
  });
  await sandbox.control("POST", "/customers/+5491155550001/messages?account=other", {
    text: "Hola",
  });
  expect((await sandbox.control("GET", "/deliveries/waiting")).body).toEqual({ waiting: 2 });
  await until("all are there", () => {
    sandbox.clock.advance(500);
    return callback.taken().length === 4;
  });
  expect(callback.posts.length).toBeLessThan(4);
  const seen = callback
    .taken()
    .map(({ wabaId, phoneNumberId, list, item }) => [
      wabaId,
      phoneNumberId,
      list,
      item["status"] ?? item["text"],
    ]);
  const waba = "102290129340398";
  expect(seen.sort()).toEqual(
    [
      [waba, phoneNumberIds[0], "statuses", "sent"],
      [waba, phoneNumberIds[1], "messages", { body: "¿Hola?" }],
      [waba, phoneNumberIds[1], "statuses", "sent"],
      [expect.stringMatching(/^\d{15}$/), other.phoneNumberId, "messages", { body: "Hola" }],
    ].sort(),
  );
});

test("posts the first status before it answers the send", async () => {
  const callback = await openCallback();
  await using sandbox = await startFor(callback, { speed: 100, faults: { meta: { early: 1 } } });
  const { body } = await graph(sandbox, { to: "5491155550003", ...welcome });
  expect(callback.statuses()).toEqual([`${body.messages[0]?.id} sent`]);
  const own = await sandbox.call("POST", "/messages", {
    to: "+5491155560003",
    template: { id: sandbox.templates()[0]?.id },
  });
  expect(callback.statuses()[1]).toBe(`${(own.body as { wamid: string }).wamid} sent`);
});

test("leaves delivered out, reports participants, calls and unknown fields, and people without a phone", async () => {
  const callback = await openCallback();
  const meta = { skip: 0.5, group: 0.3, username: 0.3, call: 0.3, unknown: 0.3 };
  await using sandbox = await startFor(callback, {
    faults: { meta, events: { malformed: 0.1, duplicate: 0.2 } },
  });
  await sendAll(sandbox, people(40));
  const items = callback.taken();
  const statuses = items.filter(
    ({ field, list, item }) =>
      field === "messages" && list === "statuses" && typeof item === "object",
  );
  const byWamid = Map.groupBy(statuses, ({ item }) => item["id"]);
  const words = [...byWamid.values()].map((all) =>
    [...new Set(all.map(({ item }) => item["status"]))].join(" "),
  );
  expect(words).toContain("sent read");
  expect(words).toContain("sent delivered read");
  const participants = [...byWamid.values()].map(
    (all) =>
      new Set(
        all.map(({ item }) => item["recipient_participant_id"]).filter((id) => id !== undefined),
      ).size,
  );
  expect(new Set(participants)).toEqual(new Set([0, 3]));
  expect(
    statuses.some(
      ({ item }) => item["recipient_id"] === undefined && item["recipient_user_id"] !== undefined,
    ),
  ).toBe(true);
  const calls = items.filter(({ field }) => field === "calls");
  expect(
    new Set(calls.map(({ list, item }) => `${list} ${item["event"] ?? item["status"]}`)),
  ).toEqual(new Set(["statuses RINGING", "statuses ACCEPTED", "calls connect", "calls terminate"]));
  expect(items.some(({ field }) => field === "future_updates")).toBe(true);
  expect(statuses.some(({ item }) => item["future_key"] !== undefined)).toBe(true);
  expect(items.some(({ item }) => typeof item === "number")).toBe(true);
  expect(callback.posts.length).toBeGreaterThan(
    new Set(callback.posts.map(({ body }) => body.toString())).size,
  );
});

test("a receiver may start later, and a URL is added while it runs", async () => {
  const callback = await openCallback();
  await using sandbox = await startFor(callback, { webhooks: [] });
  expect(
    (await sandbox.control("POST", "/webhooks", { url: `${callback.url}/other` })).status,
  ).toBe(201);
  sandbox.addWebhook({ url: callback.url });
  await until("both are verified", () =>
    sandbox.webhooks().every(({ meta }) => meta?.isVerified === true),
  );
  const port = await freePort();
  sandbox.addWebhook({ url: `http://127.0.0.1:${port}/webhooks/wa` });
  const again = await openCallback({ port });
  await until("the late one is verified", () =>
    sandbox.webhooks().every(({ meta }) => meta?.isVerified === true),
  );
  expect(again.handshakes.at(-1)?.answered).toBe(200);
});

test("a person with a username writes without a phone, and is answered by user id", async () => {
  const callback = await openCallback();
  await using sandbox = await startFor(callback, { faults: { meta: { username: 1 } } });
  sandbox.customerWrites("+5491155550003", "¿Está listo?", "Zoë");
  await sandbox.idle(longestWaitMs);
  const [received] = callback.taken();
  const user = received?.item["from_user_id"] as string;
  expect(received?.item).toEqual({
    from_user_id: expect.stringMatching(/^AR\.\d{16}$/),
    id: expect.any(String),
    timestamp: expect.any(String),
    type: "text",
    text: { body: "¿Está listo?" },
  });
  expect(received?.contacts).toEqual([
    { profile: { name: "Zoë", username: "user0003" }, user_id: user },
  ]);
  const { status, body } = await graph(sandbox, {
    recipient: user,
    type: "text",
    text: { body: "¡Sí!" },
  });
  expect([status, body]).toMatchObject([200, { contacts: [{ input: user, user_id: user }] }]);
  await live(sandbox);
  expect(
    callback.taken().map(({ item }) => [item["recipient_id"], item["recipient_user_id"]]),
  ).toEqual([
    [undefined, undefined],
    [undefined, user],
  ]);
});

test("a state file keeps token, handshakes and waiting requests, and is refused with the other format", async () => {
  const file = join(tempFolder(), "state.db");
  const first = await startSandbox({ format: "meta", file, phoneNumberIds: ["106540352242922"] });
  const { secret, verifyToken, key } = first;
  const callback = await openCallback({ appSecret: secret, verifyToken: verifyToken ?? "" });
  await first.control("POST", "/webhooks", { url: callback.url });
  callback.answerWith(() => 503);
  first.customerWrites("+5491155550001", "Hola");
  await until("it was refused", () => callback.posts.length > 0);
  await first.close();
  callback.answerWith(() => 200);
  await expect(startSandbox({ file })).rejects.toThrow(
    "the state file has webhooks of another format than standard",
  );
  const again = await startSandbox({ format: "meta", file, phoneNumberIds: ["106540352242922"] });
  expect([again.secret, again.verifyToken, again.key, again.phoneNumberId]).toEqual([
    secret,
    verifyToken,
    key,
    "106540352242922",
  ]);
  await until("it is taken", () => {
    again.clock.advance(60_000);
    return callback.taken().length === 1;
  });
  expect(callback.handshakes).toHaveLength(1);
});

test("the same seed gives the same items", async () => {
  const run = async () => {
    const callback = await openCallback();
    const meta = { skip: 0.5, group: 0.3, username: 0.3, call: 0.3, unknown: 0.3 };
    await using sandbox = await startFor(callback, {
      phoneNumberIds: ["106540352242922"],
      faults: { meta, events: { malformed: 0.1 } },
    });
    await sendAll(sandbox, people(10));
    return callback
      .taken()
      .map(({ field, item }) => [
        field,
        typeof item === "number" ? item : [item["id"], item["status"], item["recipient_id"]],
      ]);
  };
  const [one, again] = [await run(), await run()];
  expect(one.length).toBeGreaterThan(10);
  expect(again.sort()).toEqual(one.sort());
});

test("posts any field, and requests of a thousand updates", async () => {
  const callback = await openCallback();
  await using sandbox = await startFor(callback);
  const value = { event: "APPROVED", message_template_id: 594425479261596 };
  await sandbox.control("POST", "/events", {
    event: "message_template_status_update",
    data: value,
  });
  await sandbox.idle(longestWaitMs);
  expect(callback.taken()).toMatchObject([
    { field: "message_template_status_update", item: value },
  ]);
  sandbox.setFaults({ meta: { batch: 1_000, batchMs: 3_600_000 } });
  await sandbox.control("POST", "/campaigns", {
    name: "Promo",
    recipients: 500,
    perSecond: 10_000,
  });
  sandbox.clock.advance(3_600_000);
  await sandbox.idle(longestWaitMs);
  expect(callback.posts.find(({ items }) => items.length === 1_000)?.isSigned).toBe(true);
});

test("answers a send as Meta does when it is wrong, and fails late outside the window", async () => {
  const callback = await openCallback();
  await using sandbox = await startFor(callback);
  const codeOf = async (...order: Parameters<typeof graph>) => {
    const { status, body } = await graph(...order);
    return [status, body.error["code"]];
  };
  expect(await codeOf(sandbox, { to: "5491155550001", ...welcome }, { key: "wrong-key" })).toEqual([
    401, 190,
  ]);
  expect(await codeOf(sandbox, { to: "5491155550001", ...welcome }, { number: "1" })).toEqual([
    400, 100,
  ]);
  expect(await codeOf(sandbox, { to: "5491155550001" })).toEqual([400, 100]);
  expect(await codeOf(sandbox, { to: "none", ...welcome })).toEqual([400, 131009]);
  expect(
    await codeOf(sandbox, {
      to: "5491155550001",
      type: "template",
      template: { name: "none", language: { code: "es" } },
    }),
  ).toEqual([404, 132001]);
  expect(await codeOf(sandbox, { to: "5491155550005", ...welcome })).toEqual([400, 131042]);
  expect((await graph(sandbox, { messaging_product: "x" })).body.error["error_data"]).toMatchObject(
    {
      details: expect.stringContaining("messaging_product: "),
    },
  );
  const form = await fetch(`${sandbox.url}/v24.0/${sandbox.phoneNumberId}/messages`, {
    method: "POST",
    headers: { authorization: `Bearer ${sandbox.key}` },
    body: new URLSearchParams({ to: "5491155550001" }),
  });
  expect([form.status, await form.json()]).toMatchObject([400, { error: { code: 100 } }]);
  sandbox.setFaults({
    api: [{ answer: 500, when: "after", endpoint: "POST /messages", times: 1 }],
  });
  expect(await codeOf(sandbox, { to: "5491155550002", ...welcome })).toEqual([500, 131000]);
  expect(sandbox.messages().at(-1)?.phone).toBe("+5491155550002");
  sandbox.setFaults({ api: [{ answer: 429, times: 1 }] });
  expect(await codeOf(sandbox, { to: "5491155550001", ...welcome })).toEqual([429, 130429]);
  const late = await graph(sandbox, { to: "5491155550001", type: "text", text: { body: "Hola" } });
  expect(late.status).toBe(200);
  expect(await graph(sandbox, { status: "read", message_id: "wamid.x" })).toEqual({
    status: 200,
    body: { success: true },
  });
  await live(sandbox);
  expect(callback.statuses()).toEqual([`${late.body.messages[0]?.id} failed`]);
  expect(callback.taken()[0]?.item["errors"]).toMatchObject([
    { code: 131047, title: "Re-engagement message" },
  ]);
});
