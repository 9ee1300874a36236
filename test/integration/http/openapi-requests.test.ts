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
      { account: "main", wamid: "x".repeat(256) },
    ],
    [
      undefined,
      [],
      { wamid },
      { account: "main", wamid: "" },
      { account: "main", wamid: "x".repeat(257) },
      { account: "main", wamid, sentAt: "yesterday" },
      { account: "main", wamid, more: 1 },
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
      { to: "+5491155550100", text: "x".repeat(4097) },
      { to: "+5491155550100", template: { id: "t", variables: { a: 1 } } },
    ],
  ],
  [
    "POST /v1/automations/{id}/runs",
    [{ reference: "r", phone: "+5491155550100" }],
    [{ reference: "r" }, { reference: "", phone: "+5491155550100" }],
  ],
  [
    "POST /v1/replay",
    [undefined, {}, { dryRun: true, states: ["delivered"], from: "2026-11-21T12:00:00Z" }, { cursor: null }, { cursor: "1.2.3" }],
    [{ states: [] }, { states: ["held"] }, { from: "2026-11-21" }, { cursor: "1" }, { limit: 0 }, { dryRun: "true" }, [], { more: 1 }],
  ],
  ["POST /v1/reconcile", [undefined, {}, { dryRun: true, dueBy: null }], [{ dueBy: "now" }, { dryRun: 1 }, "text"]],
  ["POST /v1/listen/cursors/{name}", [{ seq: 0 }], [undefined, {}, { seq: -1 }, { seq: 1.5 }, { seq: "1" }]],
];

test.each(bodies)("%s: what the description allows as body is taken, what it forbids is refused", async (endpoint, good, bad) => {
  const relay = await startRelayHere();
  const { requestBody } = operationsOf(await documentOf(relay)).get(endpoint) as Operation;
  const schema = requestBody?.content["application/json"]?.schema as Schema;
  const path = (endpoint.split(" ")[1] ?? "").replace(/\{\w+\}/, "some");
  for (const body of [...good, ...bad]) {
    const isAllowed = body === undefined ? requestBody?.required === false : allows(schema, body);
    const { status, body: answer } = await relay.ask(path, { method: "POST", ...(body === undefined ? {} : { body }) });
    const isTaken = (answer as { code?: string }).code !== "bad_request";
    const all = [JSON.stringify(body), status, isAllowed, isTaken];
    expect(all).toEqual([JSON.stringify(body), status, good.includes(body), good.includes(body)]);
  }
});

const queries: readonly (readonly [endpoint: string, name: string, good: readonly unknown[], bad: readonly unknown[]])[] = [
  ["GET /v1/events", "limit", [1, 1000], [0, 1001, 1.5, "many"]],
  ["GET /v1/events", "disposition", ["parked"], ["lost"]],
  ["GET /v1/events", "from", ["2026-11-21T12:00:00Z"], ["2026-11-21", "2026-02-30T12:00:00Z"]],
  ["GET /v1/deliveries", "before", ["12.3"], ["12", "x"]],
  ["GET /v1/runs", "before", [1], [0, "x"]],
  ["GET /v1/audit", "wait", [0, 0.5, 30], [-1, 31, "long"]],
  ["GET /v1/explain/{name}", "as", ["event", "run"], ["delivery"]],
  ["POST /v1/messages", "maxWait", ["5m", "1.5s"], ["5", "soon"]],
  ["POST /v1/messages", "resend", [1], [0, "x"]],
  ["POST /v1/messages", "idempotency-key", ["order-1"], ["pedido-ñ", "x".repeat(257)]],
  ["GET /v1/listen", "since", ["2h", "2026-11-21T12:00:00+01:00"], ["never"]],
  ["GET /v1/listen", "tracked", ["true"], ["yes"]],
  ["GET /v1/listen", "as", ["ana"], ["-ana", "x".repeat(65)]],
  ["POST /v1/listen/cursors/{name}", "name", ["ana"], ["-ana"]],
];

test("what the description allows as parameter is taken, what it forbids is refused", async () => {
  const relay = await startRelayHere();
  const operations = operationsOf(await documentOf(relay));
  for (const [endpoint, name, good, bad] of queries) {
    const [method = "", path = ""] = endpoint.split(" ");
    const parameter = operations.get(endpoint)?.parameters?.find((one) => one.name === name);
    for (const value of [...good, ...bad]) {
      const url = new URL(relay.url + path.replace(/\{(\w+)\}/, (_, key) => (key === name ? String(value) : "some")));
      if (parameter?.in === "query") url.searchParams.set(name, String(value));
      // A key goes with it, and bytes of a header are Latin-1.
      const headers: Record<string, string> = { authorization: `Bearer ${relayToken}`, "idempotency-key": "key" };
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
      expect([...said, parameter !== undefined && allows(parameter.schema, value)]).toEqual([...said, good.includes(value)]);
      expect([...said, answer.status !== 400]).toEqual([...said, good.includes(value)]);
      ending.abort();
    }
  }
});
