import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { openCollector } from "../../harness/collector.ts";
import { type Echo, openEcho, openMirror } from "../../harness/echo.ts";
import { engines, storageOf } from "../../harness/engines.ts";
import { foundIn, hostileId, phone, traces } from "../../harness/personal.ts";
import { postEvent } from "../../harness/post-event.ts";
import { type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { startRelay } from "../../harness/relay-process.ts";
import { relayToken, routeTo } from "../../harness/relay-settings.ts";
import { runHere } from "../../harness/run-here.ts";
import { until } from "../../harness/until.ts";

/** One attempt for each delivery, and no event holds up another. */
const once = {
  order: "none",
  retry: { schedule: ["0s", "10h"], jitter: 0 },
  breaker: { failures: 1_000_000 },
  passSignature: true,
};

interface Case {
  readonly number: string;
  readonly id: string;
}

const someCase: fc.Arbitrary<Case> = phone.chain((number) =>
  hostileId(number).map((id) => ({ number, id })),
);

/** Everything that a sender, a client or the service can put these into. */
async function feed(relay: RelayHere, { number, id }: Case): Promise<void> {
  const tail = randomUUID();
  const eventOf = (parts: object) =>
    Buffer.from(JSON.stringify({ createdAt: new Date().toISOString(), data: {}, ...parts }));
  const posts = [
    eventOf({
      id: `${id}${tail}`,
      event: "message.status",
      data: { wamid: id, status: id, errorCode: number },
    }),
    eventOf({ id: `${id}${tail}`, event: "message.status", data: { wamid: id, status: "sent" } }),
    eventOf({ id: randomUUID(), event: id, data: { wamid: `${id}${number}` } }),
    eventOf({
      id: `${number}-${tail}`,
      event: "automation.failed",
      data: { runId: id, error: `no account for ${number} (${id})` },
    }),
    eventOf({ id, event: 1, [number]: id }),
    Buffer.from(`${number} ${id}`),
  ];
  const words: unknown[] = [];
  for (const body of posts) words.push((await postEvent(relay.webhookUrl, body)).word);
  expect(words).toEqual([
    "accepted",
    "duplicate",
    "accepted",
    "accepted",
    "quarantined",
    "quarantined",
  ]);

  const path = encodeURIComponent(id);
  const headers = {
    "x-request-id": encodeURIComponent(id),
    "x-forwarded-for": path,
    "user-agent": path,
    referer: `https://x.example/${path}`,
  };
  const ask = (url: string, init: RequestInit = {}) =>
    fetch(`${relay.url}${url}`, { ...init, headers: { ...headers, ...init.headers } });
  const authorization = `Bearer ${relayToken}`;
  const withToken = (method: string, body?: object) => ({
    method,
    headers: {
      authorization,
      "content-type": "application/json",
      "idempotency-key": encodeURIComponent(`${id}${tail}`).slice(0, 200),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const answers = await Promise.all([
    ask(`/webhooks/${path}?to=${path}`, { method: "POST", body: id }),
    ask(`/webhooks/main?to=${path}`, {
      method: "POST",
      body: id,
      headers: { "x-acme-signature": path },
    }),
    ask(`/no/such/${path}?to=${path}`),
    ask(`/v1/events/${path}`, { headers: { authorization: `Bearer ${path}` } }),
    ask(`/v1/events/${path}`, withToken("GET")),
    ask(`/v1/explain/${path}`, withToken("GET")),
    ask(`/v1/messages/${path}`, withToken("GET")),
    ask(`/v1/events?wamid=${path}&status=${path}`, withToken("GET")),
    ask(
      "/v1/messages/track",
      withToken("POST", { wamid: `${id}${tail}`, reference: id, metadata: { phone: number } }),
    ),
    ask("/v1/messages", withToken("POST", { to: `+${number.replace(/\D/g, "")}`, text: id })),
    ask(
      `/v1/automations/${path}/runs`,
      withToken("POST", { phone: number, reference: `${id}${tail}` }),
    ),
    ask(`/v1/deliveries/${path}/retry`, withToken("POST")),
  ]);
  for (const answer of answers) {
    expect(answer.status).not.toBe(500);
    await answer.arrayBuffer();
  }
}

/** Three accepted events of a case, each on three routes. */
const perCase = 3 * 3;

test.each(engines)(
  "logs, metrics and spans contain no phone number and no wamid (%s)",
  async (engine) => {
    const collector = await openCollector();
    const service = await openEcho(409, (request) =>
      JSON.stringify({ error: request, cause: null }),
    );
    const downstreams: Echo[] = [
      await openEcho(200, (text) => text),
      await openEcho(500, (text) => text),
      await openMirror(),
    ];
    const relay = await startRelayHere({
      settings: {
        ...(await storageOf(engine)),
        log: { level: "trace" },
        accounts: {
          main: {
            baseUrl: service.url,
            apiKey: "sk_live_of-the-test",
            plan: "enterprise",
            share: 1,
          },
        },
        tracking: { unknown: "forward" },
        server: { badSignatureLimit: 1_000 },
        routes: downstreams.map(({ url }, at) =>
          routeTo(`${url}/in`, { name: `route-${"abc"[at]}`, to: once }),
        ),
        traces: { endpoint: collector.url },
      },
    });
    const attempts = () => relay.log().filter(({ msg }) => msg === "attempt").length;
    let cases = 0;
    const ofAllCases: string[] = [];

    await fc.assert(
      fc.asyncProperty(someCase, async (each) => {
        const linesBefore = relay.log().length;
        const attemptsBefore = attempts();
        const digits = each.number.replace(/\D/g, "");
        const leaving = new AbortController();
        const listening = await fetch(`${relay.url}/v1/listen?as=${digits}`, {
          headers: { authorization: `Bearer ${relayToken}` },
          signal: leaving.signal,
        });
        expect(listening.status).toBe(200);
        await feed(relay, each);
        cases += 1;
        await until("all attempts are logged", () => attempts() >= attemptsBefore + perCase);

        const metrics = (await relay.ask("/metrics")).body as string;
        const ready = JSON.stringify((await relay.ask("/readyz")).body);
        leaving.abort();
        const wanted = [...traces(each.number), ...traces(each.id)];
        ofAllCases.push(...wanted);
        const lines = relay.log().slice(linesBefore);
        expect(foundIn(lines.map((line) => JSON.stringify(line)).join("\n"), wanted)).toEqual([]);
        expect(foundIn(`${metrics}\n${ready}`, wanted)).toEqual([]);
        expect(metrics).toContain("relay_listener_events_behind{");
      }),
      { numRuns: 8 },
    );

    const log = relay.log();
    // Each way into the log was used, so that the search above searched something.
    for (const msg of [
      "attempt",
      "quarantined",
      "bad signature",
      "a known event id came with other bytes; kept the first",
      "send",
    ]) {
      expect(log.some((line) => line["msg"] === msg)).toBe(true);
    }
    expect(log.some(({ error, detail }) => error === "protocol" && detail !== "")).toBe(true);
    expect(service.count()).toBeGreaterThan(0);
    expect(cases).toBeGreaterThan(0);
    await relay.stop();
    // Ids and times of spans are random digits: only what they say is searched.
    const said = collector.spans.map(({ name, attributes, error, service: of }) =>
      JSON.stringify({ name, attributes, error, of }),
    );
    expect(foundIn(said.join("\n"), ofAllCases)).toEqual([]);
    for (const name of ["receive", "deliver", "send"])
      expect(collector.named(name).length).toBeGreaterThan(0);
  },
);

test("commands find what a log line masks", async () => {
  const downstream = await openEcho(200, (text) => text);
  const relay = await startRelayHere({
    settings: { tracking: { unknown: "forward" }, routes: [routeTo(downstream.url)] },
  });
  const number = "+5491155551234";
  const wamid = `wamid.${Buffer.from(`\x1c\x18\x0d${number}\x15`).toString("base64")}`;
  const createdAt = new Date().toISOString();
  const events = [
    {
      id: wamid,
      event: "message.status",
      createdAt,
      data: { wamid, status: number, errorCode: number },
    },
    {
      id: number,
      event: `x.${number}`,
      createdAt,
      data: { runId: Buffer.from(number).toString("base64url"), error: wamid },
    },
  ];
  for (const event of events) await postEvent(relay.webhookUrl, Buffer.from(JSON.stringify(event)));
  const attempts = () => relay.log().filter(({ msg }) => msg === "attempt");
  await until("both are delivered", () => attempts().length === events.length);
  const run = (...args: string[]) => runHere([...args, "--config", relay.settingsPath]);
  for (const { event, delivery } of attempts()) {
    expect(event).toMatch(/^event:[0-9a-f]{12}$/);
    const { out } = await run("events", "show", String(event), "--json", "--show-pii");
    expect(events.map(({ id }) => id)).toContain((JSON.parse(out) as { id: string }).id);
    expect(await run("retry", String(delivery))).toMatchObject({ code: 0, err: "" });
  }
});

test("a crashing process logs the error without its attached data", async () => {
  const number = "+5491155551234";
  const code = `process.on("SIGUSR2", () => Promise.reject(Object.assign(new Error("refused ${number}"), { command: { args: ["${number}"] } })))`;
  const relay = await startRelay({
    env: { NODE_OPTIONS: `--import "data:text/javascript,${encodeURIComponent(code)}"` },
  });
  relay.signal("SIGUSR2");
  expect(await relay.ended()).toEqual({ code: 1, signal: null });
  expect(foundIn(`${relay.stderr()}\n${JSON.stringify(relay.log())}`, traces(number))).toEqual([]);
  expect(relay.log().at(-1)).toMatchObject({ level: "fatal", err: { message: "refused [phone]" } });
});
