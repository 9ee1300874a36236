import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { routeTo, webhookSecret } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import {
  type Downstream as Raw,
  type SeenRequest,
  startHttp,
} from "../url-destination/downstream.ts";
import { relayOfFile } from "./alive.ts";
import { ask, signature } from "./raw-client.ts";

const flows = {
  account: "main",
  kind: "automation-request",
  mode: "ack",
  signature: { service: "acme", secrets: [webhookSecret] },
};

const relay = await relayOfFile({ sources: { flows } });

async function open(
  routes: (url: string) => readonly unknown[],
  more: object = {},
): Promise<Raw & { seen: SeenRequest[] }> {
  const downstream = await startHttp((_request, response) => response.end("ok"));
  relay.writeSettings({
    sources: { flows: { ...flows, ...more }, main: { ...flows, kind: "events", mode: undefined } },
    routes: routes(downstream.url.replace("/hook", "")),
  });
  await relay.reload();
  return downstream;
}

const json = "application/json";
const bodies: readonly (readonly [
  name: string,
  body: Buffer,
  headers: Readonly<Record<string, string>>,
  guessed: string | null,
])[] = [
  [
    "a JSON object",
    Buffer.from('{"step":"ask","customer":{"tier":3}}'),
    { "content-type": json },
    null,
  ],
  ["JSON without a content type", Buffer.from('"text"'), {}, json],
  ["text", Buffer.from("grüße"), { "content-type": "text/plain; charset=utf-8" }, null],
  [
    "bytes",
    Buffer.from([0, 255, 128, 10, 13, 0]),
    { "content-type": "application/octet-stream" },
    null,
  ],
  ["nothing", Buffer.alloc(0), {}, "application/octet-stream"],
  [
    "a compressed body",
    gzipSync('{"step":"ask"}'),
    { "content-type": json, "content-encoding": "gzip" },
    null,
  ],
];

test.each(bodies)(
  "stores %s, answers 200 at once and forwards it unchanged",
  async (_name, body, headers, guessed) => {
    const downstream = await open((url) => [
      routeTo(`${url}/requests`, {
        match: { events: ["automation.request"] },
        payload: "enriched",
      }),
    ]);
    const answer = await fetch(`${relay.url}/webhooks/flows`, {
      method: "POST",
      headers: { "x-acme-signature": signature(body), ...headers },
      body: new Uint8Array(body),
    });
    expect([answer.status, await answer.json()]).toEqual([200, { status: "accepted" }]);
    const request = await until("it is forwarded", () => downstream.seen[0]);
    expect(request.headers).toMatchObject({
      ...headers,
      "x-wamid-relay-event": "automation.request",
    });
    if (guessed !== null) expect(request.headers["content-type"]).toBe(guessed);
    // An object takes the relay's part; anything else goes as it is.
    if (body.at(-1) === 0x7d)
      expect(JSON.parse(String(request.body))).toMatchObject({
        ...JSON.parse(String(body)),
        relay: {},
      });
    else expect(request.body.equals(body)).toBe(true);

    const [stored] = (
      (await relay.ask("/v1/events?source=flows&limit=1")).body as { data: [{ id: string }] }
    ).data;
    expect(stored).toMatchObject({
      event: "automation.request",
      disposition: "routed",
      size: body.length,
      subject: null,
      status: null,
    });
    const shown = await until("the delivery is written down", async () => {
      const event = (await relay.ask(`/v1/events/${stored.id}`)).body as {
        deliveries: { state: string }[];
      };
      return event.deliveries[0]?.state !== "waiting" && event;
    });
    expect(shown).toMatchObject({
      body: body.toString("base64"),
      deliveries: [{ state: "delivered", attempts: 1 }],
    });
  },
);

test("without dedupe the same request twice is two events", async () => {
  const downstream = await open((url) => [routeTo(`${url}/requests`)], { dedupe: "0s" });
  for (const _ of [1, 2])
    expect((await ask(relay.port, { target: "/webhooks/flows", body: "{}" })).json).toEqual({
      status: "accepted",
    });
  await until("both are forwarded", () => downstream.seen.length === 2);
  expect(new Set(downstream.seen.map(({ headers }) => headers["webhook-id"])).size).toBe(2);
});

test("conditions read the body, and find no field in a body that is not an object", async () => {
  const downstream = await open((url) => [
    routeTo(`${url}/high`, {
      name: "high",
      match: { sources: ["flows"], where: { "customer.tier": { $gte: 3 } } },
    }),
    routeTo(`${url}/low`, {
      name: "low",
      match: { sources: ["flows"], where: { "customer.tier": { $lt: 3 } } },
    }),
    routeTo(`${url}/rest`, {
      name: "rest",
      match: { sources: ["flows"], where: { customer: { $exists: false } } },
    }),
    routeTo(`${url}/events`, { name: "events", match: { events: ["message.*"] } }),
  ]);
  const send = (body: string) => ask(relay.port, { target: "/webhooks/flows", body });
  await send('{"customer":{"tier":3},"n":1}');
  await send('{"customer":{"tier":2},"n":2}');
  await send('[{"customer":{"tier":3},"n":3}]');
  await send("customer");
  await send('{"__proto__":{"customer":{"tier":9}},"n":5}');
  await until("all are forwarded", () => downstream.seen.length === 5);
  const at = (path: string) =>
    downstream.seen.filter((request) => request.path === path).map(({ body }) => body.toString());
  expect(at("/high")).toEqual(['{"customer":{"tier":3},"n":1}']);
  expect(at("/low")).toEqual(['{"customer":{"tier":2},"n":2}']);
  expect(at("/rest").sort()).toEqual(
    [
      '[{"customer":{"tier":3},"n":3}]',
      "customer",
      '{"__proto__":{"customer":{"tier":9}},"n":5}',
    ].sort(),
  );
});
