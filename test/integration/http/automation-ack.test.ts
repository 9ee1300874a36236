import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeRelay, type RelayProcess } from "../../harness/relay-process.ts";
import { routeTo, webhookSecret } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { type Downstream as Raw, type SeenRequest, startHttp } from "../url-destination/downstream.ts";
import { expectCleanLog, expectError } from "./alive.ts";
import { ask, requestBytes, signature } from "./raw-client.ts";

let relay: RelayProcess;

const flows = { account: "main", kind: "automation-request", mode: "ack", signature: { service: "acme", secrets: [webhookSecret] } };

async function open(routes: (url: string) => readonly unknown[], more: object = {}): Promise<Raw & { seen: SeenRequest[] }> {
  const downstream = await startHttp((_request, response) => response.end("ok"));
  relay.writeSettings({
    sources: { flows: { ...flows, ...more }, main: { ...flows, kind: "events", mode: undefined } },
    routes: routes(downstream.url.replace("/hook", "")),
  });
  const reloads = () => relay.log().filter(({ msg }) => msg === "settings reloaded").length;
  const before = reloads();
  relay.signal("SIGHUP");
  await until("the settings are reloaded", () => reloads() > before);
  return downstream;
}

beforeAll(async () => {
  relay = await makeRelay({ settings: { sources: { flows } } });
  await relay.start();
});

afterAll(async () => {
  expectCleanLog(relay);
  await relay.dispose();
});

const bodies: readonly (readonly [name: string, body: Buffer, contentType: string | null, forwardedAs: string])[] = [
  ["a JSON object", Buffer.from('{"step":"ask","customer":{"tier":3}}'), "application/json", "application/json"],
  ["a JSON list", Buffer.from("[1,2,3]"), "application/json; charset=utf-8", "application/json; charset=utf-8"],
  ["JSON without a content type", Buffer.from('"text"'), null, "application/json"],
  ["text", Buffer.from("grüße"), "text/plain; charset=utf-8", "text/plain; charset=utf-8"],
  ["a form", Buffer.from("a=1&b=%zz"), "application/x-www-form-urlencoded", "application/x-www-form-urlencoded"],
  ["bytes", Buffer.from([0, 255, 128, 10, 13, 0]), "application/octet-stream", "application/octet-stream"],
  ["bytes without a content type", Buffer.from([0, 255, 128]), null, "application/octet-stream"],
  ["gzip", gzipSync("hello"), "application/gzip", "application/gzip"],
  ["nothing", Buffer.alloc(0), null, "application/octet-stream"],
  ["JSON cut short", Buffer.from('{"a":'), "application/json", "application/json"],
  [
    "an envelope of the service",
    Buffer.from('{"id":"1","event":"message.status","createdAt":"2026-11-21T12:00:00Z","data":{}}'),
    "application/json",
    "application/json",
  ],
];

test.each(bodies)("stores %s, answers 200 at once and forwards it unchanged", async (_name, body, contentType, forwardedAs) => {
  const downstream = await open((url) => [routeTo(`${url}/requests`, { match: { events: ["automation.request"] }, payload: "enriched" })]);
  const lines = [
    "host: relay.test",
    `content-length: ${body.length}`,
    `x-acme-signature: ${signature(body)}`,
    ...(contentType === null ? [] : [`content-type: ${contentType}`]),
  ];
  expect(await ask(relay.port, { target: "/webhooks/flows", body, lines })).toMatchObject({ status: 200, json: { status: "accepted" } });
  await until("it is forwarded", () => downstream.seen.length === 1);
  const [request] = downstream.seen;
  expect(request?.headers).toMatchObject({ "content-type": forwardedAs, "x-wamid-relay-event": "automation.request" });
  // An object takes the relay's part; anything else goes as it is.
  if (request !== undefined && body.at(-1) === 0x7d)
    expect(JSON.parse(request.body.toString())).toMatchObject({ ...JSON.parse(body.toString()), relay: {} });
  else expect(request?.body.equals(body)).toBe(true);

  const [stored] = ((await relay.ask("/v1/events?source=flows&limit=1")).body as { data: Record<string, unknown>[] }).data;
  expect(stored).toMatchObject({ event: "automation.request", disposition: "routed", size: body.length, subject: null, status: null });
  const detail = await until("the delivery is written down", async () => {
    const { body: shown } = await relay.ask(`/v1/events/${String(stored?.["id"])}`);
    const event = shown as { readonly deliveries: readonly { readonly state: string }[] };
    return event.deliveries[0]?.state === "waiting" ? null : event;
  });
  expect(detail).toMatchObject({ body: body.toString("base64"), deliveries: [{ state: "delivered", attempts: 1 }] });
});

test.each([
  ["gzip", gzipSync('{"step":"ask"}')],
  ["br", Buffer.from([11, 2, 128, 123, 125, 3])],
])("forwards %s unchanged with its content encoding, so that the downstream can decode it", async (encoding, body) => {
  const downstream = await open((url) => [routeTo(`${url}/requests`, { match: { events: ["automation.request"] } })]);
  const lines = [
    "host: relay.test",
    `content-length: ${body.length}`,
    `x-acme-signature: ${signature(body)}`,
    "content-type: application/json",
    `content-encoding: ${encoding}`,
  ];
  expect(await ask(relay.port, { target: "/webhooks/flows", body, lines })).toMatchObject({ status: 200 });
  await until("it is forwarded", () => downstream.seen.length === 1);
  expect(downstream.seen[0]?.headers).toMatchObject({ "content-type": "application/json", "content-encoding": encoding });
  expect(downstream.seen[0]?.body.equals(body)).toBe(true);
});

test("without dedupe the same request twice is two events", async () => {
  const downstream = await open((url) => [routeTo(`${url}/requests`)], { dedupe: "0s" });
  for (const _ of [1, 2]) expect((await ask(relay.port, { target: "/webhooks/flows", body: "{}" })).json).toEqual({ status: "accepted" });
  await until("both are forwarded", () => downstream.seen.length === 2);
  expect(new Set(downstream.seen.map(({ headers }) => headers["webhook-id"])).size).toBe(2);
});

test("conditions read the body, and find no field in a body that is not an object", async () => {
  const downstream = await open((url) => [
    routeTo(`${url}/high`, { name: "high", match: { sources: ["flows"], where: { "customer.tier": { $gte: 3 } } } }),
    routeTo(`${url}/low`, { name: "low", match: { sources: ["flows"], where: { "customer.tier": { $lt: 3 } } } }),
    routeTo(`${url}/rest`, { name: "rest", match: { sources: ["flows"], where: { customer: { $exists: false } } } }),
    routeTo(`${url}/events`, { name: "events", match: { events: ["message.*"] } }),
  ]);
  const send = (body: string) => ask(relay.port, { target: "/webhooks/flows", body });
  await send('{"customer":{"tier":3},"n":1}');
  await send('{"customer":{"tier":2},"n":2}');
  await send('[{"customer":{"tier":3},"n":3}]');
  await send("customer");
  await send('{"__proto__":{"customer":{"tier":9}},"n":5}');
  await until("all are forwarded", () => downstream.seen.length === 5);
  const at = (path: string) => downstream.seen.filter((request) => request.path === path).map(({ body }) => body.toString());
  expect(at("/high")).toEqual(['{"customer":{"tier":3},"n":1}']);
  expect(at("/low")).toEqual(['{"customer":{"tier":2},"n":2}']);
  expect(at("/rest").sort()).toEqual(['[{"customer":{"tier":3},"n":3}]', "customer", '{"__proto__":{"customer":{"tier":9}},"n":5}'].sort());
});

test("rejects an unsigned request with 401, and then accepts a signed one", async () => {
  const downstream = await open((url) => [routeTo(`${url}/requests`)]);
  expectError(await ask(relay.port, { target: "/webhooks/flows", body: "{}", secret: "wrong" }), "bad_signature");
  expectError(await ask(relay.port, requestBytes({ target: "/webhooks/flows", lines: ["host: relay.test"] })), "bad_signature");
  expect((await ask(relay.port, { target: "/webhooks/flows", body: '{"last":1}' })).json).toEqual({ status: "accepted" });
  await until("it is forwarded", () => downstream.seen.length === 1);
  expect(downstream.seen[0]?.body.toString()).toBe('{"last":1}');
});
