import { expect, test } from "vitest";
import { allEndpoints, type NamedEndpoint } from "../../../src/model/endpoints/table.ts";
import { startSandbox } from "../../../src/sandbox/start-sandbox.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { postEvent } from "../../harness/post-event.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { routeTo, webhookSecret } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { freshEvent } from "./alive.ts";
import { ask } from "./raw-client.ts";

const patternOf = (path: string) => new RegExp(`^${path.replace(/[.]/g, "\\.").replace(/:\w+/g, "[^/]+")}$`);

// That the examples of the page fit the same schemas: test/unit/control/answers-doc.test.ts.
test("the schemas describe every field of real answers", async () => {
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
  const get = <T = unknown>(path: string) => request("GET", path) as Promise<T>;
  const post = <T = unknown>(path: string, body?: unknown) => request("POST", path, body) as Promise<T>;
  const wamid = "wamid.HBgNNTQ5MTE1NTU1MDEwMBUCABEYEkQ1";
  const facts = { reference: "order-7", metadata: { team: "a" }, conversationId: "c", id: "019a0000-0000-7000-8000-000000000000" };
  expect(await post("/v1/messages/track", { account: "main", wamid, ...facts })).toEqual({ created: 1, known: 0 });
  for (const status of ["sent", "delivered"]) await postEvent(relay.webhookUrl, freshEvent({ wamid, status }, "message.status"));
  await until("both are delivered", () => downstream.counts().taken === 2);
  await postEvent(relay.webhookUrl, Buffer.from("{}"));
  downstream.fail({ status: 500 }, "/flows");
  expect((await ask(relay.port, { target: "/webhooks/flows", body: "{}" })).status).toBe(500);
  await until("the exchange is over", async () => (await get<{ data: unknown[] }>("/v1/deliveries?state=dead")).data.length === 1);

  const events = await get<{ data: [{ id: string }] }>("/v1/events?status=delivered");
  const deliveries = await get<{ data: [{ id: string }] }>("/v1/deliveries?route=statuses");
  const [event, delivery] = [events.data[0].id, deliveries.data[0].id];
  for (const path of [
    ...["/healthz", "/readyz", "/v1/overview", "/v1/series?name=events", "/v1/quality", `/v1/events/${event}`, "/v1/deliveries/groups"],
    ...["/v1/stats/", `/v1/explain/${event}`, "/v1/audit?wait=30", "/v1/secrets", "/v1/sources", "/v1/instance", "/v1/openapi.json"],
  ])
    await get(path);
  for (const path of [
    ...["sources/wa/check", "reload", `deliveries/${delivery}/retry`, "routes/statuses/resume", "routes/statuses/handshake"],
    "accounts/main/resume",
  ])
    await post(`/v1/${path}`);
  await get("/v1/reload");
  for (const dryRun of [true, false]) await post("/v1/replay", { dryRun });

  const to = "+5491155550100";
  service.customerWrites(to, "Hola");
  const sent = await post<{ wamid: string }>("/v1/messages", { account: "main", to, text: "Hola", reference: "order-8" });
  const automation = service.automations().find(({ trigger }) => trigger === "manual")?.id;
  await post(`/v1/automations/${automation}/runs`, { account: "main", reference: "deal-1", phone: to });
  const name = encodeURIComponent(sent.wamid);
  for (const path of ["messages?limit=1", `search?q=${name}`, `messages/${name}`, "runs?status=started"]) await get(`/v1/${path}`);
  await post("/v1/reconcile");
  await post("/v1/listen/cursors/ana", { seq: 1 });
  for (const path of ["accounts", "listeners", "settings"]) await get(`/v1/${path}`);

  const { code } = await post<{ code: string }>("/v1/session/code");
  const started = await fetch(`${relay.url}/v1/session`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code }),
  });
  read("POST", "/v1/session", { status: started.status, body: await started.json() });
  const cookie = started.headers.get("set-cookie")?.split(";")[0] ?? "";
  for (const [method, path] of [
    ["GET", "/v1/session"],
    ["POST", "/v1/session/end"],
  ] as const) {
    const answer = await fetch(relay.url + path, { method, headers: { cookie, "x-wamid-relay": "console" } });
    read(method, path, { status: answer.status, body: await answer.json() });
  }
  const unread = endpoints.map(({ endpoint }) => endpoint).filter((endpoint) => !described.includes(endpoint));
  // A stream has no end.
  expect(unread.map(({ name }) => name).toSorted()).toEqual(["listen", "live"]);
});
