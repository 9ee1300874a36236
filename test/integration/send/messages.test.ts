import { expect, test } from "vitest";
import { z } from "zod";
import { usageOf } from "../../harness/sandbox-usage.ts";
import { until } from "../../harness/until.ts";
import { hello, openPhone, openRelay, sentBy, sentOf } from "./open-relay.ts";

test("registers a sent message before it answers", async () => {
  const relay = await openRelay();
  const { status, headers, body } = await relay.send(
    { ...hello, reference: "order-1", metadata: { team: "a" } },
    "k",
  );
  const [message, ...others] = sentBy(relay);
  expect([status, others.length, headers.get("idempotent-replayed")]).toEqual([201, 0, null]);
  expect(body).toEqual({
    account: "main",
    idempotencyKey: "k",
    id: message?.id,
    wamid: message?.wamid,
    status: "pending",
    conversationId: expect.any(String),
    reference: "order-1",
    stored: true,
  });
});

test("repeats the first answer under the same key, also after a restart", async () => {
  const relay = await openRelay();
  const first = await relay.send(hello, "k");
  // The same body, said in another order.
  const again = await relay.send({ text: hello.text, to: hello.to, account: "main" }, "k");
  expect([again.status, again.headers.get("idempotent-replayed"), again.body]).toEqual([
    201,
    "true",
    first.body,
  ]);
  await relay.restart();
  const later = await relay.send(hello, "k");
  expect([later.status, later.headers.get("idempotent-replayed"), later.body]).toEqual([
    201,
    "true",
    first.body,
  ]);
  expect(sentBy(relay)).toHaveLength(1);

  const keyless = [await relay.send(hello), await relay.send(hello)];
  const keys = keyless.map((answer) => sentOf(answer).idempotencyKey);
  expect(new Set(keys).size).toBe(2);
  expect(sentBy(relay)).toHaveLength(3);
  // The key that was made is one like any other.
  expect((await relay.send(hello, keys[0])).body).toEqual(keyless[0]?.body);
  expect(sentBy(relay)).toHaveLength(3);
});

test("sends one message for 50 concurrent requests with one key", async () => {
  const relay = await openRelay();
  const answers = await Promise.all(Array.from({ length: 50 }, () => relay.send(hello, "k")));
  expect(sentBy(relay)).toHaveLength(1);
  const made = answers.filter(({ status }) => status === 201);
  expect(made.filter(({ headers }) => headers.get("idempotent-replayed") === null)).toHaveLength(1);
  expect(new Set(made.map(({ body }) => JSON.stringify(body))).size).toBe(1);
  for (const { status, headers, body } of answers) {
    if (status !== 201)
      expect([status, headers.get("retry-after"), body]).toMatchObject([
        409,
        "1",
        { code: "conflict" },
      ]);
  }
  expect(await relay.send(hello, "k")).toMatchObject({ status: 201, body: made[0]?.body });
});

test.each([
  ["hang", "after", 1],
  ["hang", "before", 0],
  ["reset", "after", 1],
  [500, "before", 0],
] as const)(
  "%s %s the work: the outcome is unknown until it is sent again on purpose",
  async (answer, when, done) => {
    const relay = await openRelay();
    relay.sandbox.setFaults({ api: [{ answer, when, times: 1 }] });
    const sending = relay.send(hello, "k");
    if (answer === "hang") {
      await until("the request hangs", () => relay.deadlines() === 1);
      if (done === 1) await until("the work is done", () => sentBy(relay).length === 1);
      // Long enough for the request to have left.
      await until("it was counted", async () => (await usageOf(relay.sandbox)).apiCalls.used >= 1);
      relay.expire();
    }
    const first = await sending;
    expect(first).toMatchObject({
      status: 409,
      body: {
        code: "outcome_unknown",
        details: { idempotencyKey: "k", attempts: 1, resend: 1, justNow: true, about: "+54…00" },
      },
    });
    expect(JSON.stringify(first.body)).not.toContain(openPhone);

    const again = await relay.send(hello, "k");
    expect(again).toMatchObject({
      status: 409,
      body: { code: "outcome_unknown", details: { attempts: 1, resend: 1, justNow: false } },
    });
    await relay.restart();
    expect((await relay.send(hello, "k")).body).toEqual(again.body);
    expect(sentBy(relay)).toHaveLength(done);

    const resent = await relay.send(hello, "k", { query: "?resend=1" });
    expect(resent.status).toBe(201);
    expect(sentBy(relay).map(({ wamid }) => wamid)).toContain(sentOf(resent).wamid);
    // A client that repeats what it got no answer to does not send a third time.
    expect(await relay.send(hello, "k", { query: "?resend=1" })).toMatchObject({
      status: 201,
      body: resent.body,
    });
    expect((await relay.send(hello, "k")).body).toEqual(resent.body);
    expect(sentBy(relay)).toHaveLength(done + 1);
  },
);

test("an invalid message is refused with what is wrong with it", async () => {
  const relay = await openRelay();
  const { body } = await relay.send({ to: openPhone, template: { id: "none" } }, "k");
  expect(body).toMatchObject({
    error: expect.stringMatching(/; template\.id: .*UUID/),
    code: "service_refused",
  });
});

test.each([
  ["a closed window", { to: "+5491155550777", text: "Hola" }, 409, "conflict"],
  [
    "an unknown template",
    { to: openPhone, template: { id: "019a0000-0000-7000-8000-000000000000" } },
    404,
    "not-found",
  ],
  ["the provider", { to: "+5491155550005", text: "Hola" }, 502, "rejected"],
])(
  "rejected for %s: sends nothing, returns the service's text, and frees the key",
  async (_, body, status, kind) => {
    const relay = await openRelay();
    relay.sandbox.customerWrites("+5491155550005", "Hola");
    const refused = await relay.send(body, "k", { query: "?maxWait=1ms" });
    const error = expect.stringMatching(/[a-z]{4,} /);
    expect(refused).toMatchObject({
      status: 422,
      body: { error, code: "service_refused", details: { account: "main", status, kind } },
    });
    expect((await relay.send(hello, "k")).status).toBe(201);
    expect(sentBy(relay)).toHaveLength(1);
  },
);

test("retries temporary rejections of the provider only, and sends once", async () => {
  const relay = await openRelay({
    settings: { send: { temporaryRejections: ["Probá De Nuevo"] } },
  });
  relay.sandbox.customerWrites("+5491155550006", "Hola");
  expect((await relay.send({ to: "+5491155550006", text: "Hola" }, "k")).status).toBe(201);
  expect(sentBy(relay)).toHaveLength(1);
});

test("answers 429 with Retry-After when the caps have no room within maxWait", async () => {
  const relay = await openRelay({
    settings: { send: { maxWait: "50ms" } },
    account: { plan: "escala", share: 0.001 },
  });
  expect((await relay.send(hello, "a")).status).toBe(201);
  for (const query of ["", "?maxWait=1ms"]) {
    const refused = await relay.send(hello, "b", { query });
    expect(refused).toMatchObject({
      status: 429,
      body: { code: "service_rate_limited", details: { account: "main" } },
    });
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
  }
  expect(sentBy(relay)).toHaveLength(1);
});

test("answers the service's 429 for a cap and for a quota with different codes", async () => {
  const relay = await openRelay();
  relay.sandbox.setFaults({ api: [{ answer: 429, retryAfter: 30, times: 1 }] });
  const capped = await relay.send(hello, "k", { query: "?maxWait=100ms" });
  expect(capped).toMatchObject({ status: 429, body: { code: "service_rate_limited" } });
  expect(Number(capped.headers.get("retry-after"))).toBeGreaterThan(25);

  const other = await openRelay({ account: { plan: "escala" }, sandbox: { plan: "escala" } });
  await other.sandbox.control("PUT", "/usage", { apiCalls: 300_000 });
  for (const key of ["k", "k"]) {
    const refused = await other.send(hello, key);
    expect(refused).toMatchObject({
      status: 429,
      body: {
        code: "service_quota_used_up",
        details: {
          until: expect.stringMatching(/-01T03:00:00/),
          stop: "quota",
          resource: "apiCalls",
        },
      },
    });
  }
  await other.sandbox.control("PUT", "/usage", { apiCalls: 0 });
  expect(sentBy(other)).toHaveLength(0);
});

test("answers a refused key, an unreachable service and an account without a key", async () => {
  const refused = await openRelay({ account: { apiKey: "acme_live_wrong" } });
  expect(await refused.send(hello, "k")).toMatchObject({
    status: 502,
    body: { code: "service_key_refused" },
  });
  const nobody = await openRelay({ account: { baseUrl: "http://127.0.0.1:9" } });
  expect(await nobody.send(hello, "k", { query: "?maxWait=10ms" })).toMatchObject({
    status: 502,
    body: { code: "service_unreachable", details: { reason: "ECONNREFUSED" } },
  });
  const silent = await openRelay({ settings: { accounts: { main: {} } } });
  expect(await silent.send(hello, "k")).toMatchObject({ status: 409, body: { code: "conflict" } });
});

test("requires the account when there are two, each with its own keys", async () => {
  const relay = await openRelay();
  const second = await relay.sandbox.control("POST", "/accounts", {
    name: "second",
    plan: "enterprise",
  });
  const { key } = z.object({ key: z.string() }).parse(second.body);
  const both = await openRelay({
    settings: {
      accounts: {
        main: { baseUrl: relay.sandbox.url, apiKey: relay.sandbox.key },
        second: { baseUrl: relay.sandbox.url, apiKey: key },
      },
    },
  });
  expect(await both.send(hello, "k")).toMatchObject({
    status: 400,
    body: { details: ["main", "second"] },
  });
  expect(await both.send({ ...hello, account: "third" }, "k")).toMatchObject({ status: 400 });
  expect((await both.send({ ...hello, account: "main" }, "k")).status).toBe(201);
  // Its own window is closed: the key was looked up in another account, and is free there.
  expect(await both.send({ ...hello, account: "second" }, "k")).toMatchObject({ status: 422 });
});

test("sends nothing for a client that disconnects while it waits for room", async () => {
  const relay = await openRelay({ account: { plan: "escala", share: 0.001 } });
  relay.sandbox.setFaults({ api: [{ answer: "hang", when: "after", times: 1 }] });
  const away = new AbortController();
  const begun = relay.send(hello, "a", { signal: away.signal }).catch(() => null);
  await until("it was sent", () => sentBy(relay).length === 1);
  away.abort();
  await begun;

  const waiting = new AbortController();
  const waits = relay.send(hello, "b", { signal: waiting.signal }).catch(() => null);
  const metrics = async () => await (await fetch(`${relay.url}/metrics`)).text();
  const queued = /relay_service_calls_waiting\{account="main",priority="send"\} (\d)/;
  await until("it waits", async () => queued.exec(await metrics())?.[1] === "1");
  waiting.abort();
  await waits;
  await until("it waits no more", async () => queued.exec(await metrics())?.[1] === "0");
  relay.expire();
  const unknown = z.object({ details: z.object({ justNow: z.boolean() }).optional() });
  await until(
    "the end is stored",
    async () => unknown.parse((await relay.send(hello, "a")).body).details?.justNow === false,
  );
  expect(sentBy(relay)).toHaveLength(1);
});

test("rejects an invalid message without a call", async () => {
  const relay = await openRelay();
  const bodies = [
    {},
    { to: openPhone },
    { to: openPhone, text: "" },
    { to: openPhone, text: "a", template: { id: "t" } },
    { to: "5491155550100", text: "a" },
    { to: openPhone, text: "a", more: 1 },
    { to: openPhone, text: "a".repeat(4097) },
  ];
  for (const body of bodies)
    expect(await relay.send(body, "k")).toMatchObject({
      status: 400,
      body: { code: "bad_request" },
    });
  for (const key of ["", "k".repeat(257)]) expect((await relay.send(hello, key)).status).toBe(400);
  for (const query of ["?resend=0", "?resend=x", "?maxWait=6m", "?unknown=1"])
    expect((await relay.send(hello, "k", { query })).status).toBe(400);
  expect((await relay.send(hello, null, { query: "?resend=1" })).status).toBe(400);
  expect((await usageOf(relay.sandbox)).apiCalls.used).toBe(0);
  expect((await relay.send(hello, "k".repeat(256))).status).toBe(201);
});
