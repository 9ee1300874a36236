import { createHash, randomBytes } from "node:crypto";
import { Queue } from "bullmq";
import { Redis as Client } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { bodyOf, type SandboxEvent } from "../../../src/sandbox/events/publisher.ts";
import { startSandbox } from "../../../src/sandbox/start-sandbox.ts";
import { openCollector } from "../../harness/collector.ts";
import { engines, storageOf } from "../../harness/engines.ts";
import { redisForTest } from "../../harness/redis-states.ts";
import { type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { routeTo, webhookSecret } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { freshEvent } from "../http/alive.ts";
import { signature } from "../http/raw-client.ts";
import { openRelay } from "../hydrate/open-relay.ts";
import { startHttp } from "../url-destination/downstream.ts";

/** Posts a signed event as a sender that takes part in a trace. */
async function post(
  url: string,
  event: SandboxEvent | Buffer,
  headers: Record<string, string> = {},
): Promise<number> {
  const body = Buffer.isBuffer(event) ? event : bodyOf(event);
  const signed = { ...headers, "x-acme-signature": signature(body) };
  const answer = await fetch(url, { method: "POST", headers: signed, body: new Uint8Array(body) });
  await answer.arrayBuffer();
  return answer.status;
}

/** Of an event whose sender sends no context (docs/how-to/trace-requests.md). */
function derived(
  { id }: Pick<SandboxEvent, "id">,
  account = "main",
): { traceId: string; spanId: string } {
  const hash = createHash("sha256").update(`wamid-relay trace\0${account}\0${id}`).digest("hex");
  return { traceId: hash.slice(0, 32), spanId: hash.slice(32, 48) };
}

/** Stops the relay after so many attempts: what waits is exported then, and not a second later. */
async function exported(relay: RelayHere, attempts: number): Promise<void> {
  await until(
    `${attempts} attempts`,
    () => relay.log().filter(({ msg }) => msg === "attempt").length === attempts,
  );
  await relay.stop();
}

test.each(engines)(
  "%s: one trace has the receipt and each attempt, and goes on downstream",
  async (engine) => {
    const collector = await openCollector();
    const statuses = [500, 200];
    const downstream = await startHttp((_request, response) =>
      response.writeHead(statuses.shift() ?? 200).end(),
    );
    const relay = await startRelayHere({
      settings: {
        ...(await storageOf(engine)),
        routes: [routeTo(downstream.url)],
        traces: {
          endpoint: `${collector.url}/`,
          headers: { "x-key": "the-key-of-the-collector" },
          serviceName: "relay-of-the-test",
        },
      },
    });
    // No part of it looks like a phone number, so it is shown as it is.
    const event = {
      ...freshEvent(),
      id: "01998d3e-7c1a-7000-8000-00000000000a" as SandboxEvent["id"],
    };
    expect(await post(relay.webhookUrl, event)).toBe(200);
    await exported(relay, 2);

    const { traceId, spanId } = derived(event);
    const [receipt] = collector.named("receive");
    expect(receipt).toMatchObject({
      traceId,
      spanId,
      parentSpanId: "",
      kind: 2,
      error: null,
      service: "relay-of-the-test",
    });
    expect(receipt?.attributes).toMatchObject({
      "relay.source": "main",
      "relay.event": event.id,
      "relay.kind": "contact.updated",
      "relay.seq": 1,
      "relay.outcome": "accepted",
    });
    const attempts = collector.named("deliver");
    expect(attempts.map((span) => [span.traceId, span.parentSpanId, span.kind])).toEqual([
      [traceId, spanId, 3],
      [traceId, spanId, 3],
    ]);
    expect(
      attempts.map(({ attributes }) => [attributes["relay.attempt"], attributes["relay.outcome"]]),
    ).toEqual([
      [1, "retry"],
      [2, "delivered"],
    ]);
    expect(
      attempts.map(({ attributes, error }) => [attributes["http.response.status_code"], error]),
    ).toEqual([
      [500, "retry"],
      [200, null],
    ]);
    expect(downstream.seen.map(({ headers }) => headers["traceparent"])).toEqual(
      attempts.map((span) => `00-${traceId}-${span.spanId}-01`),
    );
    expect(collector.headers[0]?.["x-key"]).toBe("the-key-of-the-collector");
    const logged = relay.log().filter(({ msg }) => msg === "attempt");
    expect(logged.map(({ trace, delivery }) => [trace, delivery])).toEqual(
      attempts.map(({ attributes }) => [traceId, attributes["relay.delivery"]]),
    );
    expect(JSON.stringify(relay.log())).not.toContain("the-key-of-the-collector");
  },
);

test("a sender's context is kept with the event and continued, also by another process after a restart", async () => {
  const collector = await openCollector();
  const storage = await storageOf("postgres");
  const downstream = await startHttp((_request, response) => response.end());
  const settings = {
    ...storage,
    tracking: { unknown: "forward" },
    routes: [routeTo(downstream.url, { to: { passSignature: true } })],
    traces: { endpoint: collector.url },
  };
  const receiver = await startRelayHere({ settings, role: "receive" });
  const event = freshEvent(
    { wamid: "wamid.HBgNNTQ5MTE1NTU1MDAwMRUCABEYEkQ0", status: "sent" },
    "message.status",
  );
  const traceId = randomBytes(16).toString("hex");
  const sender = randomBytes(8).toString("hex");
  // A later version of the format may append fields.
  expect(
    await post(receiver.webhookUrl, event, { traceparent: `01-${traceId}-${sender}-01-more` }),
  ).toBe(200);
  // Stopped before any worker runs: its spans are sent at its end.
  await receiver.stop();
  const [receipt] = collector.named("receive");
  expect(receipt).toMatchObject({ traceId, spanId: derived(event).spanId, parentSpanId: sender });
  expect(receipt?.attributes["relay.disposition"]).toBe("routed");

  const worker = await startRelayHere({ settings, role: "work" });
  await exported(worker, 1);
  const [attempt] = collector.named("deliver");
  expect(attempt).toMatchObject({ traceId, parentSpanId: receipt?.spanId });
  // One header of that name: this attempt's, not the sender's.
  expect(downstream.seen[0]?.headers["traceparent"]).toBe(`00-${traceId}-${attempt?.spanId}-01`);
});

test("a duplicate and a quarantined body have a span of their own; an invalid context is ignored", async () => {
  const collector = await openCollector();
  const relay = await startRelayHere({
    settings: { traces: { endpoint: `${collector.url}/v1/traces` } },
  });
  const event = freshEvent();
  const invalid = [
    "",
    "00-0-0-01",
    `00-${"0".repeat(32)}-${"1".repeat(16)}-01`,
    `ff-${"1".repeat(32)}-${"1".repeat(16)}-01`,
  ];
  expect(await post(relay.webhookUrl, event, { traceparent: "nonsense" })).toBe(200);
  for (const traceparent of invalid)
    expect(await post(relay.webhookUrl, event, { traceparent })).toBe(200);
  expect(await post(relay.webhookUrl, Buffer.from("{}"))).toBe(202);
  const stored = (await relay.ask(`/v1/events/${event.id}`)).body as {
    headers: Record<string, string>;
  };
  expect(Object.keys(stored.headers)).toEqual(["x-acme-signature"]);
  await exported(relay, 0);
  const [first, ...others] = collector.named("receive");
  const root = derived(event);
  expect(first).toMatchObject({ ...root, parentSpanId: "" });
  const copies = others.filter(({ attributes }) => attributes["relay.outcome"] === "duplicate");
  expect(copies.map(({ traceId, parentSpanId }) => ({ traceId, spanId: parentSpanId }))).toEqual(
    invalid.map(() => root),
  );
  expect(new Set([first, ...others].map((span) => span?.spanId)).size).toBe(6);
  const kept = others.find(({ attributes }) => attributes["relay.outcome"] === "quarantined");
  expect(kept).toMatchObject({ parentSpanId: "", error: expect.stringContaining("id") });
});

test("sampleRatio 0 sends no span, but a sender's decision comes first; both are propagated", async () => {
  const collector = await openCollector();
  const downstream = await startHttp((_request, response) => response.end());
  const relay = await startRelayHere({
    settings: {
      routes: [routeTo(downstream.url)],
      traces: { endpoint: collector.url, sampleRatio: 0 },
    },
  });
  const [plain, sampled, refused] = [freshEvent(), freshEvent(), freshEvent()];
  const trace = (flags: string) =>
    `00-${randomBytes(16).toString("hex")}-${randomBytes(8).toString("hex")}-${flags}`;
  const [yes, no] = [trace("01"), trace("00")];
  await post(relay.webhookUrl, plain);
  await post(relay.webhookUrl, refused, { traceparent: no });
  await until("two are delivered", () => downstream.seen.length === 2);
  await post(relay.webhookUrl, sampled, { traceparent: yes });
  await exported(relay, 3);
  expect(new Set(collector.spans.map(({ traceId }) => traceId))).toEqual(
    new Set([yes.slice(3, 35)]),
  );
  const sent = downstream.seen.map(({ headers }) => String(headers["traceparent"]));
  expect(sent.map((text) => [text.slice(3, 35), text.slice(-2)]).toSorted()).toEqual(
    [
      [derived(plain).traceId, "00"],
      [no.slice(3, 35), "00"],
      [yes.slice(3, 35), "01"],
    ].toSorted(),
  );
});

test("jobs and stream entries carry the context of their attempt", async () => {
  const collector = await openCollector();
  const redis = await redisForTest();
  const relay = await startRelayHere({
    settings: {
      routes: [
        { name: "jobs", to: { queue: "traced", redis: redis.url } },
        { name: "entries", to: { stream: "traced", redis: redis.url } },
      ],
      traces: { endpoint: collector.url },
    },
  });
  const event = freshEvent();
  await post(relay.webhookUrl, event);
  await exported(relay, 2);
  const contextOf = (route: string) => {
    const span = collector
      .named("deliver")
      .find(({ attributes }) => attributes["relay.route"] === route);
    expect(span).toMatchObject({ kind: 4, error: null, traceId: derived(event).traceId });
    return `00-${span?.traceId}-${span?.spanId}-01`;
  };
  const client = new Client(redis.url, { maxRetriesPerRequest: null });
  onTestFinished(() => client.disconnect());
  const queue = new Queue("traced", { connection: client });
  const [job] = await queue.getJobs(["waiting"]);
  expect(job?.data.traceparent).toBe(contextOf("jobs"));
  // Where BullMQ's workers look for the context to continue.
  expect(JSON.parse(job?.opts.telemetry?.metadata ?? "{}")).toEqual({
    traceparent: contextOf("jobs"),
  });
  const [entry] = await client.xrange("traced", "-", "+");
  const fields = entry?.[1] ?? [];
  expect(fields[fields.indexOf("traceparent") + 1]).toBe(contextOf("entries"));
});

test("a proxied exchange is a span of the request's trace", async () => {
  const collector = await openCollector();
  const downstream = await startHttp((_request, response) => response.end("{}"));
  const relay = await startRelayHere({
    settings: {
      sources: {
        main: {
          account: "main",
          kind: "automation-request",
          mode: "proxy",
          signature: { service: "acme", secrets: [webhookSecret] },
          to: { url: downstream.url, allowPrivate: true },
        },
      },
      traces: { endpoint: collector.url },
    },
  });
  expect(await post(relay.webhookUrl, Buffer.from('{"a":1}'))).toBe(200);
  await exported(relay, 1);
  const [receipt] = collector.named("receive");
  const [exchange] = collector.named("deliver");
  expect(exchange).toMatchObject({ traceId: receipt?.traceId, parentSpanId: receipt?.spanId });
  expect(downstream.seen[0]?.headers["traceparent"]).toBe(
    `00-${exchange?.traceId}-${exchange?.spanId}-01`,
  );
});

test("sends and polls are spans; a client's context is continued", async () => {
  const collector = await openCollector();
  const sandbox = await startSandbox();
  onTestFinished(() => sandbox.close());
  const relay = await startRelayHere({
    settings: {
      accounts: { main: { baseUrl: sandbox.url, apiKey: sandbox.key } },
      reconcile: { schedule: "off", after: "60s" },
      traces: { endpoint: collector.url },
    },
  });
  sandbox.customerWrites("+5491155550001", "Hola");
  const traceId = randomBytes(16).toString("hex");
  const client = randomBytes(8).toString("hex");
  const send = (to: string) =>
    fetch(`${relay.url}/v1/messages`, {
      method: "POST",
      headers: {
        authorization: "Bearer harness-control-token",
        "content-type": "application/json",
        traceparent: `00-${traceId}-${client}-01`,
      },
      body: JSON.stringify({ to, text: "Hola" }),
    });
  expect((await send("+5491155550001")).status).toBe(201);
  expect((await send("+5491155550002")).status).not.toBe(201);
  sandbox.customerWrites("+5491155550003", "Hola");
  const { body: message } = await sandbox.call("POST", "/messages", {
    to: "+5491155550003",
    text: "Hola",
  });
  const { id, wamid } = message as { id: string; wamid: string };
  // Sent a while ago, so that a poll of it is due.
  const sentAt = new Date(Date.now() - 90_000).toISOString();
  await relay.ask("/v1/messages/track", {
    method: "POST",
    body: { account: "main", id, wamid, sentAt },
  });
  expect((await relay.ask("/v1/reconcile", { method: "POST" })).body).toMatchObject({
    accounts: [{ polled: 1 }],
  });
  await exported(relay, 0);
  const [sent, refused] = collector.named("send");
  expect(sent).toMatchObject({ traceId, parentSpanId: client, kind: 2, error: null });
  expect(sent?.attributes).toMatchObject({ "relay.kind": "message", "relay.outcome": "done" });
  expect(refused).toMatchObject({ traceId, parentSpanId: client, error: expect.any(String) });
  expect(refused?.attributes["relay.outcome"]).toBe("service_refused");
  const [poll] = collector.named("poll");
  expect(poll).toMatchObject({ kind: 3, parentSpanId: "", error: null });
  expect(poll?.attributes).toMatchObject({
    "relay.account": "main",
    "relay.origin": "reconcile",
    "relay.message_id": expect.any(String),
    "relay.outcome": "found",
  });
});

test("a hydration pass is in the trace of its truncated event, and its polls are spans", async () => {
  const collector = await openCollector();
  const relay = await openRelay({ settings: { traces: { endpoint: collector.url } } });
  const message = await relay.send();
  relay.truncate(1);
  await relay.move(message, "delivered");
  await relay.pass(5_000);
  const [event] = await relay.truncated();
  const [found] = event?.hydration?.found ?? [];
  await until("the pass is exported", () => collector.named("hydrate").length === 1);
  const root = derived({ id: event?.id as SandboxEvent["id"] });
  const [pass] = collector.named("hydrate");
  expect(pass).toMatchObject({ traceId: root.traceId, parentSpanId: root.spanId, error: null });
  expect(pass?.attributes).toMatchObject({
    "relay.polls": 1,
    "relay.changes": 1,
    "relay.outcome": "done",
  });
  const polls = collector.named("poll");
  expect(polls).toMatchObject([
    {
      kind: 3,
      parentSpanId: "",
      attributes: { "relay.origin": "hydrate", "relay.outcome": "found" },
    },
  ]);
  // The event made of what was found has a trace of its own, with a receipt that no request had.
  const receipts = collector
    .named("receive")
    .filter(({ attributes }) => attributes["relay.origin"] === "hydrate");
  expect(receipts).toMatchObject([
    { ...derived({ id: found?.id as SandboxEvent["id"] }), kind: 1 },
  ]);
});
