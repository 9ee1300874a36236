import { expect, test } from "vitest";
import { startRelayHere } from "../../harness/relay-here.ts";
import { relayToken } from "../../harness/relay-settings.ts";
import { documentOf, type Operation, operationsOf } from "./openapi-document.ts";
import { allows, type Schema } from "./schema-check.ts";

type Case = readonly [endpoint: string, good: readonly unknown[], bad: readonly unknown[]];
const wamid = "wamid.HBgNNTQ5MTE1NTU1MDEwMBUCABEYEkQ1";
const bodies: readonly Case[] = [
  [
    "POST /v1/messages/track",
    [
      { account: "main", wamid },
      [{ account: "main", wamid, sentAt: "2026-11-21T12:00:00.412+01:00", metadata: { a: [1] } }],
      { wamid },
    ],
    [
      undefined,
      { account: "main", wamid: "x".repeat(257) },
      { account: "main", wamid, sentAt: "yesterday" },
      Array.from({ length: 1001 }, () => ({ account: "main", wamid })),
    ],
  ],
  [
    "POST /v1/messages",
    // Taken as far as it is understood: the account of this relay cannot send.
    [
      { to: "+5491155550100", text: "Hola" },
      { to: "+5491155550100", template: { id: "t", variables: { a: "b" } }, reference: "r" },
    ],
    [
      { to: "+5491155550100" },
      { to: "+5491155550100", text: "Hola", template: { id: "t" } },
      { to: "5491155550100", text: "Hola" },
    ],
  ],
  [
    "POST /v1/automations/{id}/runs",
    [{ reference: "r", phone: "+5491155550100" }],
    [{ reference: "r" }, { reference: "", phone: "+5491155550100" }],
  ],
  [
    "POST /v1/replay",
    [
      undefined,
      {},
      { dryRun: true, states: ["delivered"], from: "2026-11-21T12:00:00Z" },
      { cursor: null },
      { cursor: "1.2.-3.orders" },
    ],
    [
      { states: [] },
      { states: ["held"] },
      { from: "2026-11-21" },
      { cursor: "1" },
      { limit: 0 },
      { dryRun: "true" },
      [],
      { more: 1 },
    ],
  ],
  [
    "POST /v1/reconcile",
    [undefined, {}, { dryRun: true, dueBy: null }],
    [{ dueBy: "now" }, { dryRun: 1 }, "text"],
  ],
  [
    "POST /v1/listen/cursors/{name}",
    [{ seq: 0 }],
    [undefined, {}, { seq: -1 }, { seq: 1.5 }, { seq: "1" }],
  ],
];

test.each(bodies)(
  "%s: accepts the bodies that the description allows, and rejects those it forbids",
  async (endpoint, good, bad) => {
    const relay = await startRelayHere();
    const document = await documentOf(relay);
    const { requestBody } = operationsOf(document).get(endpoint) as Operation;
    const schema = requestBody?.content["application/json"]?.schema as Schema;
    const path = (endpoint.split(" ")[1] ?? "").replace(/\{\w+\}/, "some");
    for (const body of [...good, ...bad]) {
      const isAllowed =
        body === undefined ? requestBody?.required === false : allows(document, schema, body);
      const { status, body: answer } = await relay.ask(path, {
        method: "POST",
        ...(body === undefined ? {} : { body }),
      });
      const isTaken = (answer as { code?: string }).code !== "bad_request";
      const all = [JSON.stringify(body), status, isAllowed, isTaken];
      expect(all).toEqual([JSON.stringify(body), status, good.includes(body), good.includes(body)]);
    }
  },
);

const queries: readonly (readonly [
  endpoint: string,
  name: string,
  good: readonly unknown[],
  bad: readonly unknown[],
])[] = [
  ["GET /v1/events", "limit", [1, 1000], [0, 1001, 1.5, "many"]],
  ["GET /v1/events", "disposition", ["parked"], ["lost"]],
  ["GET /v1/events", "from", ["2026-11-21T12:00:00Z"], ["2026-11-21", "2026-02-30T12:00:00Z"]],
  ["GET /v1/deliveries", "before", ["12.3"], ["12", "x"]],
  ["GET /v1/audit", "wait", [0, 0.5, 30], [-1, 31, "long"]],
  ["GET /v1/explain/{name}", "as", ["event", "run"], ["delivery"]],
  ["POST /v1/messages", "maxWait", ["5m", "1.5s"], ["5", "soon"]],
  ["POST /v1/messages", "idempotency-key", ["order-1"], ["pedido-ñ", "x".repeat(257)]],
  ["GET /v1/listen", "since", ["2h", "2026-11-21T12:00:00+01:00"], ["never"]],
  ["GET /v1/listen", "as", ["ana"], ["-ana", "x".repeat(65)]],
  ["POST /v1/listen/cursors/{name}", "name", ["ana"], ["-ana"]],
];

test("accepts the parameters that the description allows, and rejects those it forbids", async () => {
  const relay = await startRelayHere();
  const document = await documentOf(relay);
  const operations = operationsOf(document);
  for (const [endpoint, name, good, bad] of queries) {
    const [method = "", path = ""] = endpoint.split(" ");
    const parameter = operations.get(endpoint)?.parameters?.find((one) => one.name === name);
    for (const value of [...good, ...bad]) {
      const url = new URL(
        relay.url + path.replace(/\{(\w+)\}/, (_, key) => (key === name ? String(value) : "some")),
      );
      if (parameter?.in === "query") url.searchParams.set(name, String(value));
      // A key goes with it, and bytes of a header are Latin-1.
      const headers: Record<string, string> = {
        authorization: `Bearer ${relayToken}`,
        "idempotency-key": "key",
      };
      if (parameter?.in === "header") headers[name] = String(value);
      if (method === "POST") headers["content-type"] = "application/json";
      const body = path.includes("cursors") ? { seq: 0 } : { to: "+5491155550100", text: "Hola" };
      const ending = new AbortController();
      const answer = await fetch(url, {
        method,
        headers,
        signal: ending.signal,
        ...(method === "POST" ? { body: JSON.stringify(body) } : {}),
      });
      const said = [endpoint, name, value];
      expect([
        ...said,
        parameter !== undefined && allows(document, parameter.schema, value),
      ]).toEqual([...said, good.includes(value)]);
      expect([...said, answer.status !== 400]).toEqual([...said, good.includes(value)]);
      ending.abort();
    }
  }
});

test("rejects an unknown query parameter at every endpoint, and does nothing", async () => {
  const relay = await startRelayHere();
  const operations = operationsOf(await documentOf(relay));
  expect(operations.size).toBeGreaterThan(18);
  const ask = async (endpoint: string, query: string) => {
    const [method = "", path = ""] = endpoint.split(" ");
    const answer = await fetch(`${relay.url}${path.replace(/\{\w+\}/g, "some")}?${query}`, {
      method,
      headers: { authorization: `Bearer ${relayToken}` },
    });
    return { status: answer.status, body: method === "HEAD" ? null : await answer.json() };
  };
  const refused = (name: string, known: readonly string[]) => {
    const message = `unknown query parameter (${known.length === 0 ? "this endpoint takes none" : `there are: ${known.join(", ")}`})`;
    return {
      status: 400,
      body: {
        error: `${name}: ${message}`,
        code: "bad_request",
        details: [{ path: name, message }],
      },
    };
  };
  for (const [endpoint, { parameters = [] }] of operations) {
    const inQuery = parameters.filter((parameter) => parameter.in === "query");
    const said = inQuery.map(({ name }) => name);
    const needed = inQuery.filter(({ required }) => required === true);
    const given = needed
      .map(
        ({ name, schema }) =>
          `${name}=${(schema["enum"] as readonly string[] | undefined)?.[0] ?? "some"}&`,
      )
      .join("");
    // `limit` is one of lists alone.
    for (const name of ["nonsense", "limit", "__proto__"].filter((each) => !said.includes(each))) {
      expect([endpoint, await ask(endpoint, `${given}${name}=1`)]).toEqual([
        endpoint,
        refused(name, said),
      ]);
    }
    if (
      endpoint.startsWith("GET") &&
      endpoint !== "GET /v1/listen" &&
      endpoint !== "GET /v1/live"
    ) {
      expect([endpoint, (await ask(endpoint.replace("GET", "HEAD"), "nonsense=1")).status]).toEqual(
        [endpoint, 400],
      );
    }
  }
  const track = (query: string, type: string) =>
    fetch(`${relay.url}/v1/messages/track${query}`, {
      method: "POST",
      headers: { authorization: `Bearer ${relayToken}`, "content-type": type },
      body: JSON.stringify({ account: "main", wamid }),
    });
  const list = async () =>
    ((await relay.ask("/v1/messages?")).body as { data: unknown[] }).data.length;
  for (const type of ["application/json", "application/x-ndjson"])
    expect((await track("?dryRun=true", type)).status).toBe(400);
  expect(await list()).toBe(0);
  expect((await track("?", "application/json")).status).toBe(200);
  expect(await list()).toBe(1);
});
