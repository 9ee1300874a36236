import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createRelay } from "../../../src/app/relay.ts";
import { parseSettings } from "../../../src/config/load.ts";
import { allEndpoints, type NamedEndpoint } from "../../../src/model/endpoints/table.ts";
import { startSandbox } from "../../../src/sandbox/start-sandbox.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { routeTo, settingsOf, webhookSecret } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { freshEvent } from "./alive.ts";
import { ask } from "./raw-client.ts";
import { registered } from "./registered.ts";

const page = readFileSync(new URL("../../../docs/reference/endpoints.md", import.meta.url), "utf8");
const sections = new Map(
  page
    .split(/^### /m)
    .slice(1)
    .flatMap((text) => {
      const [heading = ""] = text.split("\n");
      return /^[A-Z]+ \//.test(heading) ? [[heading, text] as const] : [];
    }),
);
const jsonBlocks = (endpoint: string): unknown[] =>
  [...(sections.get(endpoint) ?? "").matchAll(/^```json\n(.*?)^```/gms)].map((match) => JSON.parse(match[1] ?? "") as unknown);

async function endpointsOfRelay(): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-doc-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const settings = parseSettings(JSON.stringify(settingsOf({ port: 0, storePath: join(folder, "relay.db") })), "relay.yaml", {});
  const relay = await createRelay({ settings, log: { write: () => {}, end: async () => {} } });
  const found = await registered(relay.http);
  await relay.close();
  // Not Fastify's: its path carries all the traffic.
  return [...found, "POST /webhooks/{source}"];
}

test("the page lists every endpoint in a table and in a section, and no other", async () => {
  const endpoints = (await endpointsOfRelay()).toSorted();
  expect(endpoints).toContain("POST /v1/deliveries/{id}/retry");
  expect([...sections.keys()].toSorted()).toEqual(endpoints);
  const table = [...page.matchAll(/^\| \[`?([A-Z]+ [^`\]]+)`?\]\(#/gm)].map((match) => match[1]);
  expect(table.toSorted()).toEqual(endpoints);
});

/** Keys and types. Where an example or an answer has null, or an empty list, the other may have anything. */
function fits(example: unknown, real: unknown, at = ""): string[] {
  if (example === null || real === null) return [];
  if (Array.isArray(example) && Array.isArray(real)) {
    return example.length === 0 || real.length === 0
      ? []
      : example.flatMap((one) => fits(one, real.find((other) => fits(one, other).length === 0) ?? real[0], `${at}[]`));
  }
  if (typeof example === "object" && typeof real === "object" && !Array.isArray(example) && !Array.isArray(real)) {
    const [a, b] = [example as Record<string, unknown>, real as Record<string, unknown>];
    // Headers differ, and the page shows one section of the settings.
    if (at.endsWith(".headers") || at.endsWith(".settings")) return [];
    const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
    return [...keys].flatMap((key) =>
      key in a && key in b ? fits(a[key], b[key], `${at}.${key}`) : [`${at}.${key} is only in the ${key in a ? "page" : "answer"}`],
    );
  }
  return typeof example === typeof real ? [] : [`${at} is a ${typeof example} in the page and a ${typeof real} in the answer`];
}

test("the comparison of shapes can fail", () => {
  expect(fits({ a: [{ b: 1 }] }, { a: [{ b: "1" }] })).toEqual([".a[].b is a number in the page and a string in the answer"]);
  expect(fits({ a: 1 }, { a: 1, c: null })).toEqual([".c is only in the answer"]);
  expect(fits({ a: 1, c: null }, { a: 1 })).toEqual([".c is only in the page"]);
});

const patternOf = (path: string) => new RegExp(`^${path.replace(/[.]/g, "\\.").replace(/:\w+/g, "[^/]+")}$`);

test("the examples have the shape of real answers, which their schemas describe", async () => {
  const downstream = await openDownstream();
  await using service = await startSandbox();
  const relay = await startRelayHere({
    settings: {
      accounts: { main: { baseUrl: service.url, apiKey: service.key } },
      routes: [
        routeTo(downstream.url, { name: "runs", match: { events: ["automation.*"], sources: ["main"] } }),
        routeTo(downstream.url, { name: "statuses", match: { events: ["message.*"] }, to: { verifyToken: "a-verify-token" } }),
      ],
      sources: {
        // Nothing answers there.
        wa: {
          format: "meta",
          account: "main",
          signature: { secrets: [webhookSecret] },
          graph: { token: "an access token", businessAccounts: ["1"], baseUrl: "http://127.0.0.1:9" },
        },
        main: { account: "main", signature: { service: "acme", secrets: [webhookSecret] } },
        flows: {
          account: "main",
          kind: "automation-request",
          mode: "proxy",
          signature: { service: "acme", secrets: [webhookSecret] },
          to: { url: `${downstream.url}/flows`, allowPrivate: true },
        },
      },
    },
  });
  const described: NamedEndpoint[] = [];
  const endpoints = allEndpoints.map((endpoint) => ({ endpoint, pattern: patternOf(endpoint.path) }));
  /** Its answer, which the schema of its status describes with every field. */
  const request = async (method: "GET" | "POST", path: string, body?: unknown) =>
    read(method, path, await relay.ask(path, { method, body }));
  const read = (method: "GET" | "POST", path: string, answer: { status: number; body: unknown }) => {
    const [plain = ""] = path.split(/\/?(?:\?|$)/);
    const found = endpoints.find(({ endpoint, pattern }) => endpoint.method === method && pattern.test(plain))?.endpoint;
    if (found === undefined) return answer.body;
    const schema = found.answers[answer.status]?.schema;
    expect([path, answer.status, schema?.safeParse(answer.body)]).toEqual([path, answer.status, { success: true, data: answer.body }]);
    described.push(found);
    return answer.body;
  };
  const get = (path: string) => request("GET", path);
  const post = (path: string, body?: unknown) => request("POST", path, body);
  const [registration, created] = jsonBlocks("POST /v1/messages/track");
  const answers: [endpoint: string, real: unknown[]][] = [
    ["POST /v1/messages/track", [registration, await post("/v1/messages/track", registration)]],
  ];
  expect(created).toEqual({ created: 1, known: 0 });

  const { wamid } = registration as { wamid: string };
  for (const status of ["sent", "delivered"])
    await ask(relay.port, { body: JSON.stringify(freshEvent({ wamid, status }, "message.status")) });
  await until("both are delivered", () => downstream.counts().taken === 2);
  const good = JSON.stringify(freshEvent());
  answers.push([
    "POST /webhooks/{source}",
    [await ask(relay.port, { body: good }), await ask(relay.port, { body: good }), await ask(relay.port, { body: "{}" })].map(
      ({ json }) => json,
    ),
  ]);
  downstream.fail({ status: 500 }, "/flows");
  expect((await ask(relay.port, { target: "/webhooks/flows", body: "{}" })).status).toBe(500);
  await until("the exchange is over", async () => ((await get("/v1/deliveries?state=dead")) as { data: unknown[] }).data.length === 1);

  const events = (await get("/v1/events?status=delivered")) as { data: { id: string }[] };
  const deliveries = (await get("/v1/deliveries?route=statuses")) as { data: { id: string }[] };
  const replays: unknown[] = [];
  for (const body of jsonBlocks("POST /v1/replay").filter((_, index) => index % 2 === 0))
    replays.push(body, await post("/v1/replay", body));
  answers.push(
    ["GET /healthz", [await get("/healthz")]],
    ["GET /readyz", [await get("/readyz")]],
    ["GET /v1/overview", [await get("/v1/overview")]],
    ["GET /v1/series", [await get("/v1/series?name=events")]],
    ["GET /v1/quality", [await get("/v1/quality")]],
    ["GET /v1/events", [events]],
    ["GET /v1/events/{id}", [await get(`/v1/events/${events.data[0]?.id}`)]],
    ["GET /v1/deliveries", [deliveries]],
    ["GET /v1/deliveries/groups", [await get("/v1/deliveries/groups")]],
    ["GET /v1/stats", [await get("/v1/stats/")]],
    ["GET /v1/explain/{name}", [await get(`/v1/explain/${events.data[0]?.id}`)]],
    ["GET /v1/audit", [await get("/v1/audit?wait=30")]],
    ["GET /v1/secrets", [await get("/v1/secrets")]],
    ["GET /v1/sources", [await get("/v1/sources")]],
    ["POST /v1/sources/{source}/check", [await post("/v1/sources/wa/check")]],
    ["GET /v1/instance", [await get("/v1/instance")]],
    ["POST /v1/reload", [await post("/v1/reload")]],
    ["GET /v1/reload", [await get("/v1/reload")]],
    ["POST /v1/replay", replays],
    ["POST /v1/deliveries/{id}/retry", [await post(`/v1/deliveries/${deliveries.data[0]?.id}/retry`)]],
    ["POST /v1/routes/{route}/resume", [await post("/v1/routes/statuses/resume")]],
    ["POST /v1/routes/{route}/handshake", [await post("/v1/routes/statuses/handshake")]],
    ["POST /v1/accounts/{account}/resume", [await post("/v1/accounts/main/resume")]],
  );

  await get("/v1/openapi.json");

  const [message] = jsonBlocks("POST /v1/messages");
  service.customerWrites((message as { to: string }).to, "Hola");
  const sent = (await post("/v1/messages", message)) as { wamid: string };
  const [run] = jsonBlocks("POST /v1/automations/{id}/runs");
  const automation = service.automations().find(({ trigger }) => trigger === "manual")?.id;
  answers.push(
    ["POST /v1/messages", [message, sent]],
    ["GET /v1/messages", [await get("/v1/messages?limit=1")]],
    ["GET /v1/search", [await get(`/v1/search?q=${encodeURIComponent(sent.wamid)}`)]],
    ["GET /v1/messages/{wamid}", [await get(`/v1/messages/${encodeURIComponent(sent.wamid)}`)]],
    ["POST /v1/automations/{id}/runs", [run, await post(`/v1/automations/${automation}/runs`, run)]],
    ["GET /v1/runs", [await get("/v1/runs?status=started")]],
    ["POST /v1/reconcile", [await post("/v1/reconcile")]],
    ["GET /v1/accounts", [await get("/v1/accounts")]],
    ["POST /v1/listen/cursors/{name}", [{ seq: 1 }, await post("/v1/listen/cursors/ana", { seq: 1 })]],
    ["GET /v1/listeners", [await get("/v1/listeners")]],
    ["GET /v1/settings", [await get("/v1/settings")]],
  );
  const code = (await post("/v1/session/code")) as { code: string };
  const signIn = { code: code.code };
  const started = await fetch(`${relay.url}/v1/session`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(signIn),
  });
  const session = read("POST", "/v1/session", { status: started.status, body: await started.json() });
  const cookie = started.headers.get("set-cookie")?.split(";")[0] ?? "";
  const asConsole = async (path: string, method: "GET" | "POST") => {
    const answer = await fetch(relay.url + path, { method, headers: { cookie, "x-wamid-relay": "console" } });
    return read(method, path, { status: answer.status, body: await answer.json() });
  };
  answers.push(
    ["POST /v1/session/code", [code]],
    ["POST /v1/session", [signIn, session]],
    ["GET /v1/session", [await asConsole("/v1/session", "GET")]],
    ["POST /v1/session/end", [await asConsole("/v1/session/end", "POST")]],
  );
  for (const [endpoint, real] of answers) {
    const examples = jsonBlocks(endpoint);
    expect([endpoint, examples.length]).toEqual([endpoint, real.length]);
    for (const [n, example] of examples.entries()) expect([endpoint, fits(example, real[n])]).toEqual([endpoint, []]);
  }
  const unread = endpoints.map(({ endpoint }) => endpoint).filter((endpoint) => !described.includes(endpoint));
  // A stream has no end.
  expect(unread.map(({ name }) => name).toSorted()).toEqual(["listen", "live"]);
  const shown = [...sections.keys()].filter((endpoint) => jsonBlocks(endpoint).length > 0);
  expect(shown.toSorted()).toEqual(answers.map(([endpoint]) => endpoint).toSorted());
});

/** A stream would not end, so its query is refused. */
const streams = new Map([
  ["/v1/listen", "?since=never"],
  ["/v1/live", "?tail=never"],
]);

test("every endpoint that needs a token answers 401 without one and 403 without the scope", async () => {
  const relay = await startRelayHere({
    settings: {
      control: {
        badTokenLimit: 1_000,
        tokens: [
          { name: "reader", token: "token-that-may-read", scopes: ["read"] },
          { name: "other", token: "token-that-may-others", scopes: ["replay", "track", "send", "listen"] },
        ],
      },
    },
  });
  const rows = [...page.matchAll(/^\| \[([A-Z]+) (\S+)\]\(\S+\) \| `(\w+)` \|/gm)];
  expect(rows.length).toBeGreaterThanOrEqual(14);
  for (const [, method = "", path = "", scope] of rows) {
    // A stream has no end to wait for.
    const url = relay.url + path.replace(/\{\w+\}/g, "some") + (streams.get(path) ?? "");
    const codeWith = async (authorization: string) => {
      const answer = await fetch(url, { method, headers: authorization === "" ? {} : { authorization } });
      return [answer.status, ((await answer.json()) as { code?: string }).code];
    };
    for (const wrong of ["", "Bearer", "Bearer ", "Bearer unknown", "Basic token-that-may-read", "token-that-may-read"])
      expect([path, ...(await codeWith(wrong))]).toEqual([path, 401, "unauthorized"]);
    const [lacking, having] =
      scope === "read" ? ["token-that-may-others", "token-that-may-read"] : ["token-that-may-read", "token-that-may-others"];
    expect([path, ...(await codeWith(`Bearer ${lacking}`))]).toEqual([path, 403, "forbidden"]);
    expect([401, 403]).not.toContain((await codeWith(`Bearer ${having}`))[0]);
  }
});
