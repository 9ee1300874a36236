import { readFileSync } from "node:fs";
import Fastify from "fastify";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { addControlRoutes } from "../../../../src/sandbox/control/control.ts";
import type { ControlParts } from "../../../../src/sandbox/control/routes.ts";
import { type Answer, type Sandbox, startSandbox } from "../../../../src/sandbox/start-sandbox.ts";
import { createWorld } from "../../../../src/sandbox/world.ts";
import { openDownstream } from "../../../harness/downstream.ts";
import { usageOf } from "../../../harness/sandbox-usage.ts";
import { until } from "../../../harness/until.ts";

const page = readFileSync(
  new URL("../../../../docs/contributing/sandbox.md", import.meta.url),
  "utf8",
);
const table = page.slice(page.indexOf("| endpoint | what it does |")).split("\n\n")[0] ?? "";
async function registered(): Promise<string[]> {
  const app = Fastify();
  const found: string[] = [];
  app.addHook("onRoute", ({ method, url }) => {
    for (const one of [method].flat())
      if (one !== "HEAD") found.push(`${one} ${url.replace(/:(\w+)/g, "{$1}")}`);
  });
  addControlRoutes(app, { world: createWorld({ changed() {} }) } as ControlParts);
  await app.ready();
  await app.close();
  return found;
}

test("every endpoint under /sandbox is in docs/contributing/sandbox.md, and the page has no other", async () => {
  const rows = table.replaceAll("{id or wamid}", "{id}");
  const named = [...rows.matchAll(/`(GET|POST|PUT|PATCH|DELETE) (\/sandbox[^` ]*)`/g)].map(
    ([, method, path]) => `${method} ${path}`,
  );
  expect(named.toSorted()).toEqual((await registered()).toSorted());
});

/** Endpoints that this file has called, so that none of the page goes untested. */
const called = new Set<string>();
let sandbox: Sandbox;
let routes: readonly string[];

async function control(
  method: string,
  path: string,
  body?: unknown,
  of: Sandbox = sandbox,
): Promise<Answer> {
  const [bare = ""] = path.split("?");
  const parts = `/sandbox${bare}`.split("/");
  const route = routes.find((known) => {
    const [verb, pattern = ""] = known.split(" ");
    const others = pattern.split("/");
    return (
      verb === method &&
      others.length === parts.length &&
      others.every((part, at) => part.startsWith("{") || part === parts[at])
    );
  });
  if (route !== undefined) called.add(route);
  return of.control(method, path, body);
}

/** The parts of answers that what follows needs; what they hold besides is for the tests to say. */
const identified = z.object({ id: z.string() });
const time = z.object({ now: z.number() });
const contact = z.object({ conversation: z.unknown() });

beforeAll(async () => {
  routes = (await registered()).toSorted((a, b) => a.split("{").length - b.split("{").length);
  sandbox = await startSandbox({ seed: "control" });
  sandbox.clock.freeze();
});
afterAll(() => sandbox.close());

describe("the sandbox as a whole", () => {
  test("GET / tells what is set up", async () => {
    const { status, body } = await control("GET", "");
    expect(status).toBe(200);
    expect(body).toMatchObject({
      url: sandbox.url,
      apiUrl: `${sandbox.url}/api/v1`,
      accounts: [{ name: "main", plan: "escala" }],
      clock: { frozen: true },
      faults: { api: [], events: { drop: 0 } },
      counts: { templates: 3, automations: 2, keys: 1, messages: 0, deliveriesWaiting: 0 },
    });
  });

  test("the clock is read, frozen, thawed and moved on", async () => {
    const { body } = await control("GET", "/clock");
    expect(body).toEqual({
      now: sandbox.clock.now(),
      iso: new Date(sandbox.clock.now()).toISOString(),
      frozen: true,
    });
    const before = time.parse(body).now;
    expect((await control("POST", "/clock", { advanceMs: 1_500 })).body).toMatchObject({
      now: before + 1_500,
    });
    const thawed = await control("POST", "/clock", { frozen: false, advanceMs: 60_000 });
    expect(thawed.body).toMatchObject({ frozen: false });
    expect(time.parse(thawed.body).now).toBeGreaterThanOrEqual(before + 61_500);
    expect((await control("POST", "/clock", { frozen: true })).body).toMatchObject({
      frozen: true,
    });
    for (const order of [
      { advanceMs: -1 },
      { advanceMs: 1e15 },
      { frozen: "yes" },
      { advance: 5 },
      [],
    ]) {
      expect((await control("POST", "/clock", order)).status).toBe(400);
    }
  });

  test("faults are put, met, and taken away", async () => {
    const put = await control("PUT", "/faults", {
      api: [{ answer: 502, endpoint: "GET /me" }],
      events: { drop: 0.5 },
    });
    expect(put.body).toMatchObject({
      api: [{ answer: 502, share: 1, when: "before" }],
      events: { drop: 0.5, duplicate: 0 },
    });
    expect((await sandbox.call("GET", "/me")).status).toBe(502);
    expect((await control("GET", "/faults")).body).toEqual(put.body);
    const bad = await control("PUT", "/faults", { api: [{ answer: 418 }], events: { drop: 2 } });
    expect(bad).toMatchObject({
      status: 400,
      body: { error: expect.stringMatching(/events\.drop: .*; api\.0\.answer: /) },
    });
    expect((await control("DELETE", "/faults")).status).toBe(204);
    expect((await sandbox.call("GET", "/me")).status).toBe(200);
  });

  test("usage is shown and set; blocks are forgotten", async () => {
    expect((await control("GET", "/usage")).body).toMatchObject({
      apiCalls: { used: expect.any(Number), limit: 300_000 },
    });
    expect((await control("PUT", "/usage", { apiCalls: 300_000 })).body).toMatchObject({
      apiCalls: { used: 300_000 },
    });
    expect((await sandbox.call("GET", "/me")).body).toMatchObject({
      cause: { resource: "apiCalls", used: 300_000 },
    });
    expect((await usageOf(sandbox, "?shown=1")).apiCalls.used).toBeLessThan(300_000);
    await control("PUT", "/usage", { apiCalls: 0 });
    for (let n = 0; n < 21; n += 1) await fetch(`${sandbox.apiUrl}/me`);
    expect((await sandbox.call("GET", "/me")).status).toBe(429);
    expect((await control("DELETE", "/blocks")).status).toBe(204);
    expect((await sandbox.call("GET", "/me")).status).toBe(200);
  });
});

describe("accounts, numbers and keys", () => {
  test("an account comes with a key and a number, and is changed", async () => {
    const { status, body } = await control("POST", "/accounts", {
      name: "shop",
      plan: "enterprise",
      contactLimit: 1,
    });
    expect(status).toBe(201);
    expect(body).toMatchObject({
      name: "shop",
      plan: "enterprise",
      contactLimit: 1,
      key: expect.stringMatching(/^acme_live_/),
    });
    const given = z.object({ key: z.string() }).parse(body);
    const me = await (
      await fetch(`${sandbox.apiUrl}/me`, { headers: { authorization: `Bearer ${given.key}` } })
    ).json();
    expect(me).toMatchObject({ plan: "enterprise" });
    expect((await control("POST", "/accounts", { name: "shop" })).status).toBe(409);
    expect((await control("POST", "/accounts", { name: "a b" })).status).toBe(400);
    expect(
      (await control("PATCH", "/accounts/shop", { plan: "trial", isConnected: false })).body,
    ).toMatchObject({
      plan: "trial",
      isConnected: false,
      contactLimit: 1,
    });
    expect((await control("PATCH", "/accounts/nobody", {})).body).toEqual({
      error: "there is no account nobody",
    });
    expect((await control("GET", "/accounts")).body).toMatchObject({
      data: [{ name: "main" }, { name: "shop" }],
    });
    expect((await control("GET", "/keys?account=shop")).body).toHaveProperty("data.length", 1);
    expect((await control("GET", "/keys?account=nobody")).status).toBe(404);
  });

  test("numbers are added and disconnected", async () => {
    expect((await control("POST", "/numbers", { phoneNumberId: "555" })).body).toMatchObject({
      phoneNumberId: "555",
      isConnected: true,
    });
    expect((await control("POST", "/numbers", { phoneNumberId: "555" })).status).toBe(409);
    expect((await control("POST", "/numbers")).status).toBe(201);
    expect((await control("PATCH", "/numbers/555", { isConnected: false })).body).toMatchObject({
      isConnected: false,
    });
    expect((await control("PATCH", "/numbers/556", { isConnected: false })).status).toBe(404);
    expect((await control("GET", "/numbers")).body).toMatchObject({
      data: [{ isConnected: true }, { isConnected: false }, { isConnected: true }],
    });
  });

  test("keys are made with a label, and revoked", async () => {
    const made = identified.parse((await control("POST", "/keys", { label: "n1" })).body);
    expect((await control("DELETE", `/keys/${made.id}`)).status).toBe(204);
    const { body } = await control("GET", "/keys");
    expect(body).toMatchObject({
      data: [
        { label: "first", isRevoked: false },
        { id: made.id, label: "n1", isRevoked: true },
      ],
    });
    expect((await control("DELETE", "/keys/none")).status).toBe(404);
  });
});

test("webhooks: subscribed, changed, rotated, deleted", async () => {
  const downstream = await openDownstream();
  const { status, body } = await control("POST", "/webhooks", {
    url: `${downstream.url}/one`,
    events: ["custom.*"],
  });
  expect(status).toBe(201);
  expect(body).toEqual({
    id: expect.any(String),
    url: `${downstream.url}/one`,
    events: ["custom.*"],
    secret: expect.any(String),
  });
  const { id } = identified.parse(body);
  await control("POST", "/events", { event: "custom.made", data: { n: 1 } });
  await control("POST", "/events", { event: "other.made", data: { n: 2 } });
  await until("the event arrives", () => downstream.counts("/one").arrivals === 1);
  expect((await control("POST", `/webhooks/${id}/rotate`, { secret: "fresh" })).body).toEqual({
    secret: "fresh",
  });
  expect((await control("POST", `/webhooks/${id}/rotate`)).body).toEqual({
    secret: expect.stringMatching(/^whsec_/),
  });
  expect((await control("PATCH", `/webhooks/${id}`, { isEnabled: false })).body).toMatchObject({
    isEnabled: false,
    events: ["custom.*"],
  });
  const { url } = downstream;
  const unsignable = { url, secret: "no key!", signature: { preset: "standard-webhooks" } };
  for (const order of [
    {},
    { url: "ftp://x" },
    { url: "x" },
    { url, events: [] },
    { url, signature: {} },
    unsignable,
  ]) {
    expect((await control("POST", "/webhooks", order)).status).toBe(400);
  }
  expect((await control("GET", "/webhooks")).body).toMatchObject({ data: [{ id }] });
  expect((await control("DELETE", `/webhooks/${id}`)).status).toBe(204);
  expect((await control("DELETE", `/webhooks/${id}`)).status).toBe(404);
});

test("AI apps come and go", async () => {
  const { status, body } = await control("POST", "/apps", { name: "one" });
  expect([status, body]).toEqual([
    201,
    { id: expect.any(String), name: "one", token: expect.any(String) },
  ]);
  expect((await control("GET", "/apps")).body).toHaveProperty("data.length", 1);
  expect((await control("DELETE", `/apps/${identified.parse(body).id}`)).status).toBe(204);
  expect((await control("GET", "/apps")).body).toEqual({ data: [] });
});

test("customers write, a colleague replies, contacts are put", async () => {
  const phone = "+5491166660001";
  expect((await control("POST", "/colleague/replies", { phone, text: "Hola" })).status).toBe(404);
  const put = await control("PUT", `/contacts/${phone}`, {
    name: "Ana",
    attributes: { fecha: "hoy" },
  });
  expect(put.body).toMatchObject({
    phone,
    name: "Ana",
    attributes: { fecha: "hoy" },
    conversation: { customerWroteAt: null },
  });
  expect((await control("POST", "/colleague/replies", { phone, text: "Hola" })).status).toBe(409);
  expect((await control("GET", `/contacts/${phone}`)).body).toMatchObject({
    conversation: { humanRepliedAt: null },
  });
  const wrote = await control("POST", `/customers/${phone}/messages`, { text: "¿Hay lugar?" });
  expect(wrote).toMatchObject({ status: 201, body: { status: "received", origin: "customer" } });
  const reply = await control("POST", "/colleague/replies", { phone, text: "Sí" });
  expect(reply).toMatchObject({ status: 201, body: { origin: "chat", text: "Sí" } });
  const { conversation } = contact.parse(
    (await control("GET", `/contacts/${encodeURIComponent(phone)}`)).body,
  );
  expect(conversation).toMatchObject({
    customerWroteAt: sandbox.clock.now(),
    humanRepliedAt: sandbox.clock.now(),
    runId: null,
  });
  // Written as people write it, as sending takes it too.
  const spaced = `${phone.slice(0, 3)} ${phone.slice(3, 6)}-${phone.slice(6)}`;
  expect((await control("GET", `/contacts/${encodeURIComponent(spaced)}`)).body).toHaveProperty(
    "conversation",
    conversation,
  );
  expect((await control("POST", "/colleague/replies", { phone: spaced, text: "Sí" })).status).toBe(
    201,
  );
  expect((await control("GET", "/contacts/+5491100000000")).status).toBe(404);
  expect(await control("GET", "/nowhere")).toMatchObject({
    status: 404,
    body: { error: expect.stringContaining("docs/contributing/sandbox.md") },
  });
  expect((await control("DELETE", "/clock")).status).toBe(404);
  expect((await control("POST", "/customers/ana/messages", { text: "x" })).status).toBe(400);
  expect((await control("POST", `/customers/${phone}/messages`, { text: "" })).status).toBe(400);
});

test("templates, a campaign that sends one, and its reply", async () => {
  const order = {
    name: "Promoción de Año Nuevo",
    body: "Hola {{nombre}}",
    variables: [{ name: "nombre", example: "Ana" }],
  };
  const { status, body } = await control("POST", "/templates", order);
  expect(status).toBe(201);
  expect(body).toMatchObject({
    metaName: "promocion_de_ano_nuevo",
    status: "approved",
    category: "UTILITY",
    variables: [{ label: "nombre" }],
  });
  const { id } = identified.parse(body);
  const phones = ["+5491177770001"];
  const campaign = await control("POST", "/campaigns", {
    name: "enero",
    templateId: id,
    phones,
    perSecond: 10,
  });
  expect(campaign).toMatchObject({ status: 201, body: { total: 1 } });
  sandbox.clock.advance(60_000);
  expect((await control("GET", "/messages?origin=campaign")).body).toMatchObject({
    data: [{ text: "Hola Ana" }],
  });
  const reply = await control("POST", `/customers/${phones[0]}/replies`, { text: "Quiero" });
  expect(reply).toMatchObject({ status: 201, body: { status: "received" } });
  const wrong = [
    {},
    { phones, recipients: 3 },
    { recipients: -1 },
    { recipients: 1.5 },
    { recipients: 1e9 },
    { recipients: 1, perSecond: 0 },
  ];
  for (const order of wrong)
    expect((await control("POST", "/campaigns", { name: "x", ...order })).status).toBe(400);
  expect((await control("PATCH", `/templates/${id}`, { status: "rejected" })).body).toMatchObject({
    status: "rejected",
  });
  expect((await control("DELETE", `/templates/${id}`)).status).toBe(204);
  expect((await control("GET", "/templates")).body).toHaveProperty("data.length", 3);
});

test("messages and events are listed in pages, found by id and wamid, and moved", async () => {
  const phone = "+5491188880002";
  for (let n = 0; n < 5; n += 1) sandbox.customerWrites(phone, `n${n}`);
  const answer = await sandbox.call("POST", "/messages", { to: phone, text: "Hola" });
  const sent = z.object({ id: z.string(), wamid: z.string() }).parse(answer.body);
  expect((await control("GET", `/messages/${sent.wamid}`)).body).toMatchObject({ id: sent.id });
  expect((await control("GET", `/messages/${sent.id}`)).body).toMatchObject({
    status: "pending",
    text: "Hola",
    origin: "api",
    phone,
  });
  const pages = z.object({ data: z.array(z.unknown()), next: z.string().nullable() });
  const all = pages.parse((await control("GET", "/messages?limit=1000")).body).data;
  const paged: unknown[] = [];
  for (let after: string | null = ""; after !== null; ) {
    const { data, next } = pages.parse(
      (await control("GET", `/messages?limit=2${after === "" ? "" : `&after=${after}`}`)).body,
    );
    expect(data.length).toBeLessThanOrEqual(2);
    paged.push(...data);
    after = next;
  }
  expect(paged).toEqual(all);
  const moved = await control("POST", `/messages/${sent.wamid}/status`, {
    status: "failed",
    errorCode: "131049",
  });
  expect(moved.body).toMatchObject({ status: "failed", errorCode: "131049", future: [] });
  expect((await control("POST", `/messages/${sent.id}/status`, { status: "lost" })).status).toBe(
    400,
  );
  expect((await control("POST", "/messages/none/status", { status: "sent" })).status).toBe(404);
  expect((await control("GET", "/messages?status=failed&origin=api")).body).toHaveProperty(
    "data.length",
    1,
  );
  for (const query of ["status=lost", "origin=nobody", "stauts=failed"])
    expect((await control("GET", `/messages?${query}`)).status).toBe(400);
  const found = await control(
    "GET",
    `/events?event=message.status&wamid=${encodeURIComponent(sent.wamid)}`,
  );
  const [event] = z
    .object({ data: z.tuple([z.object({ body: z.string(), deliveries: z.array(z.unknown()) })]) })
    .parse(found.body).data;
  expect(JSON.parse(event.body)).toMatchObject({
    data: { wamid: sent.wamid, status: "failed", errorCode: "131049" },
  });
  expect(event.deliveries).toEqual([]);
  for (const query of ["limit=0", "limit=x", "limit=1001"])
    expect((await control("GET", `/events?${query}`)).status).toBe(400);
});

test("an event of any kind; its delivery is waited for, as long as one likes", async () => {
  const downstream = await openDownstream();
  downstream.fail({ status: 500 });
  const webhook = identified.parse(
    (await control("POST", "/webhooks", { url: downstream.url, events: ["*"] })).body,
  );
  const made = await control("POST", "/events", {
    event: "order.made",
    data: { wamid: "wamid.X" },
  });
  expect(made).toMatchObject({ status: 201, body: { event: "order.made", wamid: "wamid.X" } });
  await until("the first try", () => downstream.counts().arrivals === 1);
  expect((await control("GET", "/deliveries/waiting?forMs=20")).body).toEqual({ waiting: 1 });
  downstream.recover();
  const waiting = control("GET", "/deliveries/waiting?forMs=150000");
  sandbox.clock.advance(3_600_000);
  expect((await waiting).body).toEqual({ waiting: 0 });
  expect((await control("GET", "/events?event=order.made")).body).toMatchObject({
    data: [{ deliveries: [{ status: "delivered", tries: 2, answered: 200 }] }],
  });
  await control("DELETE", `/webhooks/${webhook.id}`);
});

test("automations are made, started by their webhook, paused; runs are seen", async () => {
  const { status, body } = await control("POST", "/automations", {
    name: "Aviso",
    trigger: "incoming-webhook",
    steps: [
      { type: "wait", ms: 1_000 },
      {
        type: "request",
        url: "http://127.0.0.1:9/none",
        body: { a: "{{x}}" },
        onError: [{ type: "fail", error: "nadie contestó" }],
      },
    ],
  });
  expect(status).toBe(201);
  expect(body).toMatchObject({ token: expect.stringMatching(/^ats_/), status: "published" });
  const { id, hookUrl } = z.object({ id: z.string(), hookUrl: z.string() }).parse(body);
  const hook = () =>
    fetch(hookUrl, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ phone: "+5491199990003", x: "1" }),
    });
  const started = await hook();
  expect(started.status).toBe(201);
  const { runId } = (await started.json()) as { runId: string };
  expect((await control("GET", `/runs/${runId}`)).body).toMatchObject({
    status: "running",
    automationId: id,
  });
  sandbox.clock.advance(10_000);
  await until("the run ends", async () => {
    sandbox.clock.advance(1_000);
    const run = await control("GET", `/runs/${runId}`);
    return z.object({ status: z.string() }).parse(run.body).status === "failed";
  });
  expect((await control("GET", "/runs?limit=1")).body).toMatchObject({
    data: [{ id: runId, error: "nadie contestó" }],
  });
  expect(
    (await control("PATCH", `/automations/${id}`, { status: "paused", steps: [] })).body,
  ).toMatchObject({
    status: "paused",
    steps: [],
  });
  expect((await hook()).status).toBe(409);
  expect((await control("GET", "/automations")).body).toHaveProperty("data.length", 3);
  const bad = await control("POST", "/automations", { name: "x", steps: [{ type: "dance" }] });
  expect(bad).toMatchObject({
    status: 400,
    body: { error: expect.stringMatching(/^steps\.0: is no step/) },
  });
});

test("what is no JSON is 400, whatever the content type; curl's own is taken as JSON", async () => {
  const post = (body: string, type: string) =>
    fetch(`${sandbox.url}/sandbox/clock`, {
      method: "POST",
      body,
      headers: { "content-type": type },
    });
  expect((await post("{}", "application/x-www-form-urlencoded")).status).toBe(200);
  const bad = await post("{", "application/json");
  expect([bad.status, await bad.json()]).toEqual([400, { error: "the body is not valid JSON" }]);
  expect((await fetch(`${sandbox.url}/sandbox/nothing`)).status).toBe(404);
});

test("the endpoint of the format meta: the handshake again", async () => {
  await using meta = await startSandbox({ format: "meta", webhooks: [{ url: sandbox.url }] });
  const [webhook] = meta.webhooks();
  const verified = await control("POST", `/webhooks/${webhook?.id}/verify`, undefined, meta);
  expect(verified.body).toEqual({ url: sandbox.url, isVerified: false, reason: "answered 404" });
});

test("every endpoint of the page was called here", () => {
  expect([...called].toSorted()).toEqual([...routes].toSorted());
});
