import { createHmac } from "node:crypto";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRelay } from "../../src/app/relay.ts";
import { loadSettings } from "../../src/config/load.ts";
import type { Example, examples } from "../../src/control/openapi.ts";
import { endpoints } from "../../src/model/endpoints/table.ts";
import { type EndpointName, paths } from "../../src/model/paths.ts";
import { type Sandbox, startSandbox } from "../../src/sandbox/start-sandbox.ts";
import { createManualClock, settled } from "../../test/harness/manual-clock.ts";
import { until } from "../../test/harness/until.ts";

const [secret, oldSecret, token] = [
  "the secret of the service",
  "the secret before it",
  "the-token-of-an-operator",
];
const wamids = [1, 2, 3, 4].map(
  (last) =>
    `wamid.${Buffer.from(`\x1c\x18\x0d549115555000${last}\x15\x02\x00\x11\x18\x123EB0C431C26A1916E0\0`).toString("base64")}`,
);
const [first, second, third, fourth] = wamids as [string, string, string, string];
const [person, number, businessAccount] = ["+5491155550100", "106540352242922", "102290129340398"];
const [secondMs, minuteMs] = [1_000, 60_000];

/**
 * The answers of a relay, by endpoint, in one short story. Its clock stands still between the
 * steps, so each run gives the same answers, except for what `fixed` replaces.
 */
export async function makeExamples(): Promise<typeof examples> {
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-examples-"));
  using rest = createRest();
  const clock = createManualClock(Date.parse("2026-11-21T12:00:00.412Z"), rest.wait);
  await using remote = await openRemote();
  await using service = await startSandbox({
    clock,
    seed: "examples",
    key: "acme_live_0123456789",
    secret,
  });
  const file = join(folder, "relay.yaml");
  const write = (changed: Changed): void =>
    writeFileSync(file, JSON.stringify(settingsOf(folder, remote.url, service, changed), null, 2));
  write({});
  const read = () => loadSettings(file, {});
  const log = { write: () => {}, end: async () => {} };
  const reread = () => ({ settings: read(), overridden: ["CRM_SECRET"] });
  const relay = await createRelay({
    settings: read(),
    file,
    log,
    clock,
    random: () => 0.5,
    reread,
  });
  try {
    const { port } = await relay.listen();
    const fix = fixing(folder, new URL(remote.url).host);
    return await story({
      relay,
      url: `http://127.0.0.1:${port}`,
      clock,
      service,
      remote,
      write,
      fix,
    });
  } finally {
    await relay.close();
    rmSync(folder, { recursive: true });
  }
}

/** Waits until every request is answered, and what follows from its answer is stored. */
function createRest() {
  const pending = new Set<unknown>();
  const begun = (message: unknown): void =>
    void pending.add((message as { request: unknown }).request);
  const ended = (message: unknown): void =>
    void pending.delete((message as { request: unknown }).request);
  const listeners = { create: begun, trailers: ended, error: ended };
  for (const [event, listener] of Object.entries(listeners))
    subscribe(`undici:request:${event}`, listener);
  return {
    async wait(): Promise<void> {
      do await settled(40);
      while (pending.size > 0);
    },
    [Symbol.dispose](): void {
      for (const [event, listener] of Object.entries(listeners))
        unsubscribe(`undici:request:${event}`, listener);
    },
  };
}

/** What differs between two runs, or is too long for an example. */
const fixed: Readonly<Record<string, (value: never) => unknown>> = {
  instance: () => "0b6f2a4e-1f0c-4e4e-9d55-6c6c3f6f3a11",
  pid: () => 4242,
  host: () => "relay-1",
  tookMs: () => 14,
  p50Ms: () => 14,
  p99Ms: () => 38,
  ackP99Ms: () => ({ value: 4.1, lastHour: [4.2, 4.1] }),
  lastHour: (values: readonly unknown[]) => values.slice(-2),
  // Of `/v1/settings`; that of `/readyz` has no such section.
  settings: ({ tracking, ...rest }: { tracking?: object }) =>
    tracking === undefined ? rest : { tracking },
};
const code =
  "c.VbUl2e2sSV0n.1795406460000.5Rr7bGJlcVuDdD1mK3x9yA.3vJm0kU3v3G7j8mJdPpYl1w2uWc7d0eA9qQ2c3h0lXk";

function fixing(folder: string, host: string) {
  return (value: unknown): unknown => {
    const text = JSON.stringify(value)
      .replaceAll(folder, "/var/lib/wamid-relay")
      .replaceAll(host, "crm.example")
      .replace(/c\.[\w-]{12}\.\d{13}\.[\w-]{22}\.[\w-]{43}/, code);
    return JSON.parse(text, (field, part) =>
      part === null ? null : (fixed[field]?.(part as never) ?? part),
    );
  };
}

type Remote = Awaited<ReturnType<typeof openRemote>>;

/** The destinations, and Meta's Graph API. */
async function openRemote() {
  let isBroken = false;
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://remote");
    request.resume().once("end", () => {
      if (pathname === "/crm" && isBroken) response.writeHead(503).end("down for maintenance");
      else if (pathname === "/flows") response.writeHead(500).end();
      else response.end(graph[pathname] ?? searchParams.get("hub.challenge") ?? "ok");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    crm(state: "broken" | "repaired"): void {
      isBroken = state === "broken";
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const graph: Readonly<Record<string, string>> = {
  [`/graph/${businessAccount}/subscribed_apps`]: JSON.stringify({
    data: [{ whatsapp_business_api_data: { id: "670843887433847", name: "Acme" } }],
  }),
  [`/graph/${businessAccount}/phone_numbers`]: JSON.stringify({
    data: [
      {
        id: number,
        webhook_configuration: { phone_number: "https://chat.example/webhooks/whatsapp" },
      },
    ],
  }),
};

interface Changed {
  readonly secrets?: readonly string[];
  readonly maxInFlight?: number;
  readonly crm?: object;
}

function settingsOf(
  folder: string,
  url: string,
  service: Sandbox,
  { secrets = [secret, oldSecret], maxInFlight = 4096, crm = {} }: Changed,
) {
  const to = { allowPrivate: true };
  return {
    server: { host: "127.0.0.1", port: 0, maxInFlight },
    storage: { path: join(folder, "relay.db") },
    control: {
      tokens: [
        { name: "ops", token, scopes: ["read", "track", "send", "replay", "listen", "pii"] },
      ],
    },
    accounts: { main: { baseUrl: service.url, apiKey: service.key } },
    reconcile: { schedule: "off" },
    sources: {
      main: { account: "main", signature: { service: "acme", secrets } },
      flows: {
        account: "main",
        kind: "automation-request",
        mode: "proxy",
        signature: { service: "acme", secrets: [secret] },
        to: { ...to, url: `${url}/flows` },
      },
      wa: {
        format: "meta",
        account: "main",
        verifyTokens: ["a verify token"],
        signature: { secrets: [secret] },
        graph: {
          token: "an access token",
          businessAccounts: [businessAccount],
          baseUrl: `${url}/graph`,
        },
      },
    },
    routes: [
      {
        name: "crm",
        match: { events: ["message.*"], sources: ["main"] },
        to: { ...to, url: `${url}/crm`, breaker: { failures: 3 }, ...crm },
      },
      {
        name: "chatwoot",
        match: { sources: ["wa"] },
        to: { ...to, url: `${url}/chatwoot`, verifyToken: "its verify token" },
      },
    ],
  };
}

interface StoryParts {
  readonly relay: Awaited<ReturnType<typeof createRelay>>;
  readonly url: string;
  readonly clock: ReturnType<typeof createManualClock>;
  readonly service: Sandbox;
  readonly remote: Remote;
  readonly write: (changed: Changed) => void;
  readonly fix: (value: unknown) => unknown;
}

interface ExampleRequest {
  readonly of?: Readonly<Record<string, string | number | boolean>>;
  readonly body?: object;
  readonly headers?: Readonly<Record<string, string>>;
  readonly when?: string;
}

interface Page {
  readonly data: readonly { readonly id: string }[];
}
const idOf = ({ body }: { readonly body: Page }): string => body.data[0]?.id ?? "";

const bearer = { authorization: `Bearer ${token}` };

const metaBody = (wamid: string): string => {
  const status = {
    id: wamid,
    status: "sent",
    timestamp: "1795262400",
    recipient_id: person.slice(1),
  };
  const value = {
    messaging_product: "whatsapp",
    metadata: { phone_number_id: number },
    statuses: [status],
  };
  return JSON.stringify({
    object: "whatsapp_business_account",
    entry: [{ id: businessAccount, changes: [{ field: "messages", value }] }],
  });
};

async function story({
  relay,
  url,
  clock,
  service,
  remote,
  write,
  fix,
}: StoryParts): Promise<typeof examples> {
  const examples: Partial<Record<EndpointName, Example[]>> = {};

  async function ask<T>(
    name: EndpointName,
    { of = {}, body, headers = bearer }: ExampleRequest = {},
  ) {
    const [method = "", path = ""] = paths[name].split(" ");
    const query = new URLSearchParams();
    let target = path;
    for (const [key, value] of Object.entries(of)) {
      if (path.includes(`:${key}`)) target = target.replace(`:${key}`, encodeURIComponent(value));
      else query.set(key, String(value));
    }
    const answer = await fetch(`${url}${target}?${query}`, {
      method,
      headers: {
        ...headers,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: answer.status, headers: answer.headers, body: (await answer.json()) as T };
  }
  async function show<T>(name: EndpointName, given: ExampleRequest = {}) {
    const answer = await ask<T>(name, given);
    const { when, body: request } = given;
    const isUsual = String(answer.status) === Object.keys(endpoints[name].answers)[0];
    const example = {
      ...(when === undefined ? {} : { when }),
      ...(isUsual ? {} : { status: answer.status }),
      ...(request === undefined ? {} : { request }),
      answer: answer.body,
    };
    examples[name] = [...(examples[name] ?? []), fix(example) as Example];
    return answer;
  }
  async function post(
    source: string,
    body: string,
    header = "x-acme-signature",
    by = secret,
  ): Promise<void> {
    const signature = `sha256=${createHmac("sha256", by).update(body).digest("hex")}`;
    await fetch(`${url}/webhooks/${source}`, {
      method: "POST",
      headers: { "content-type": "application/json", [header]: signature },
      body,
    });
  }
  let events = 0;
  async function status(
    wamid: string,
    status: string,
    more: object = {},
    by = secret,
  ): Promise<void> {
    events += 1;
    const id = `01998d3e-7c1a-7000-8000-${String(events).padStart(12, "0")}`;
    const createdAt = new Date(clock.now() - 412).toISOString();
    await post(
      "main",
      JSON.stringify({ id, event: "message.status", createdAt, data: { wamid, status, ...more } }),
      undefined,
      by,
    );
  }
  const deliveries = (state: string, count: number) =>
    until(`${count} deliveries ${state}`, async () => {
      const { body } = await ask<{ data: unknown[] }>("listDeliveries", { of: { state } });
      return body.data.length === count;
    });

  const facts = {
    id: "0199aa10-0000-7000-8000-000000000007",
    reference: "order-16",
    metadata: { team: "support" },
  };
  await show("getReadiness");
  await show("trackMessages", { body: { wamid: first, ...facts } });
  await ask("trackMessages", { body: [second, third, fourth].map((wamid) => ({ wamid })) });
  await status(first, "sent", {}, oldSecret);
  await clock.advance(605);
  await status(first, "delivered");
  await deliveries("delivered", 2);

  await show("getSeries", {
    of: { name: "events", from: "2026-11-21T11:58:00Z", to: "2026-11-21T12:01:00Z" },
  });
  const event = await show<Page>("listEvents", { of: { status: "delivered" } });
  await show("getEvent", { of: { id: idOf(event) } });
  const delivery = await show<Page>("listDeliveries", { of: { route: "crm", limit: 1 } });
  await show("explain", { of: { name: first, limit: 1 } });

  // Signed, but not a valid event.
  await post("main", "Hello");
  await show("audit", { of: { wait: 30 } });
  await show("getStats");
  await show("listSecrets");

  // An exchange that failed.
  await post(
    "flows",
    JSON.stringify({ runId: "0199aa10-0000-7000-8000-000000000008", name: "Ana" }),
  );
  await deliveries("dead", 1);

  // Meta: a handshake, a status, and what its Graph API reports.
  await fetch(
    `${url}/webhooks/wa?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=a+verify+token`,
  );
  await post("wa", metaBody(fourth), "x-hub-signature-256");
  await deliveries("delivered", 3);
  await show("listSources");
  await show("checkSource", { of: { source: "wa" } });
  await show("performHandshake", { of: { route: "chatwoot" } });

  const dry = { dryRun: true };
  await show("replay", { body: { states: ["delivered"], limit: 1 } });
  await deliveries("delivered", 3);
  await show("replay", {
    when: "With `dryRun`: what would be sent, and what cannot, because its route is not in the settings.",
    body: { ...dry, states: ["delivered", "dead"] },
  });
  await show("replay", {
    when: "With `disposition: quarantined` and `dryRun`: how many are valid now, and why the others are not.",
    body: { ...dry, disposition: "quarantined" },
  });

  // A destination fails, and is repaired.
  remote.crm("broken");
  for (const [wamid, word, more] of [
    [second, "sent"],
    [second, "delivered"],
    [third, "failed", { errorCode: "131026" }],
  ] as const)
    await status(wamid, word, more);
  await deliveries("waiting", 2);
  await clock.advance(20 * secondMs);
  await show("getOverview");
  await show("groupDeliveries");
  remote.crm("repaired");
  await show("resumeRoute", { of: { route: "crm" } });
  await ask("replay", { body: { states: ["waiting"] } });
  await deliveries("delivered", 6);
  await show("retryDelivery", { of: { id: idOf(delivery) } });
  await deliveries("delivered", 6);

  // The messaging service.
  service.customerWrites(person, "Hola");
  const order = { to: person, text: "Tu pedido salió.", reference: "order-17" };
  const sent = await show<{ wamid: string }>("sendMessage", {
    body: order,
    headers: { ...bearer, "idempotency-key": "order-17-left" },
  });
  const automation = service.automations().find(({ trigger }) => trigger === "manual")?.id ?? "";
  await show("startRun", {
    of: { id: automation },
    body: { reference: "order-17", phone: person, data: { pedido: "17" } },
  });
  await show("listMessages", { of: { reference: "order-17" } });
  await show("getMessage", { of: { wamid: sent.body.wamid } });
  await show("listRuns");
  await show("search", { of: { q: "order-17" } });
  await clock.advance(2 * minuteMs);
  await show("reconcile");
  await show("getQuality");
  await show("listAccounts");

  // A truncated event: the relay polls the message that it may be about.
  await ask("sendMessage", { body: { ...order, text: "Ya llega.", reference: "order-18" } });
  await clock.advance(30 * secondMs);
  const truncated = {
    id: "01998d3e-7c1a-7000-8000-00000000002a",
    event: "message.status",
    createdAt: "2026-11-21T12:02:50.605Z",
  };
  await post(
    "main",
    JSON.stringify({ ...truncated, data: { truncated: true, id: null, size: 300_000 } }),
  );
  await clock.advance(5 * secondMs);
  await until("the event is hydrated", async () => {
    const { body } = await ask<{ hydration: { state: string } }>("getEvent", {
      of: { id: truncated.id },
    });
    return body.hydration.state === "done";
  });
  await show("getEvent", {
    of: { id: truncated.id },
    when: "A truncated event, with the changes that polling found.",
  });

  await show("resumeAccount", { of: { account: "main" } });
  await show("moveCursor", { of: { name: "ana" }, body: { seq: 1 } });
  await show("listListeners");

  await show("getHealth");
  await show("getInstance");
  await show("getSettings");
  write({ secrets: [secret], maxInFlight: 2048, crm: { timeout: "5s" } });
  await show("reloadSettings");
  write({ crm: { secret: "${CRM_SECRET}" } });
  await relay.reload();
  await show("getReload");

  const { code } = (await show<{ code: string }>("createSessionCode")).body;
  const { headers } = await show("startSession", { body: { code }, headers: {} });
  const cookie = {
    cookie: headers.get("set-cookie")?.split(";")[0] ?? "",
    "x-wamid-relay": "console",
  };
  await show("getSession", { headers: cookie });
  await show("endSession", { headers: cookie });
  return Object.fromEntries(
    (Object.keys(paths) as EndpointName[]).flatMap((name) =>
      name in examples ? [[name, examples[name]]] : [],
    ),
  );
}
