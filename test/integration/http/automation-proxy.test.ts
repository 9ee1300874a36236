// Slow: it kills and restarts a relay.
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { openDownstream } from "../../harness/downstream.ts";
import { type AnyRelay, type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { startRelay } from "../../harness/relay-process.ts";
import { routeTo, webhookSecret } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { freePort } from "../../setup/free-port.ts";
import { startHttp, startRaw } from "../url-destination/downstream.ts";
import { expectError, metric, nothingInFlight } from "./alive.ts";
import { ask, connect, requestBytes, signature } from "./raw-client.ts";

const signatureOf = { service: "acme", secrets: [webhookSecret] };
const mebibyte = 1024 * 1024;

function settings(url: string, more: object = {}, routes: readonly unknown[] = []) {
  return {
    sources: {
      flows: {
        account: "main",
        kind: "automation-request",
        mode: "proxy",
        // Most tests send one body again and again.
        dedupe: "0s",
        signature: signatureOf,
        to: { url, allowPrivate: true, ...more },
      },
    },
    routes,
  };
}

const start = (
  url: string,
  more: object = {},
  routes: readonly unknown[] = [],
): Promise<RelayHere> => startRelayHere({ settings: settings(url, more, routes) });
const send = (relay: AnyRelay, body: string | Buffer = '{"step":1}') =>
  ask(relay.port, { target: "/webhooks/flows", body });

interface Delivery {
  readonly id: string;
  readonly route: string;
  readonly state: string;
  readonly attempts: number;
  readonly reason: string | null;
  readonly attemptHistory: readonly {
    readonly status: number | null;
    readonly error: string | null;
    readonly response: string | null;
  }[];
}

/** The newest event of the source with its deliveries, once their results are written down. */
async function recorded(
  relay: AnyRelay,
): Promise<{ event: Record<string, unknown>; proxied: Delivery; others: Delivery[] }> {
  return until("the exchange and the copies are written down", async () => {
    const [newest] = (
      (await relay.ask("/v1/events?source=flows&limit=1")).body as { data: { seq: number }[] }
    ).data;
    if (newest === undefined) return null;
    const event = (await relay.ask(`/v1/events/${newest.seq}`)).body as Record<string, unknown> & {
      deliveries: Delivery[];
    };
    const proxied = event.deliveries.find(({ route }) => route === "proxy:flows");
    return proxied === undefined || event.deliveries.some(({ state }) => state === "waiting")
      ? null
      : { event, proxied, others: event.deliveries.filter((one) => one !== proxied) };
  });
}

describe("passes the downstream's status, content type and body back", () => {
  const answers: readonly (readonly [
    name: string,
    status: number,
    type: string | null,
    body: Buffer,
    state: string,
  ])[] = [
    ["200", 200, "application/json", Buffer.from('{"next":"greet"}'), "delivered"],
    ["201 without a content type", 201, null, Buffer.from([0, 255]), "delivered"],
    ["204", 204, null, Buffer.alloc(0), "delivered"],
    ["302", 302, "text/html", Buffer.from("<a>"), "dead"],
    ["500", 500, "text/plain; charset=latin1", Buffer.from([0xe9]), "dead"],
    ["a status nobody knows", 799, "x-any/thing", Buffer.from("?"), "dead"],
    ["a megabyte", 200, "application/octet-stream", Buffer.alloc(mebibyte, 7), "delivered"],
  ];

  test("for every kind of answer", async () => {
    let answer = answers[0];
    const downstream = await startHttp((_request, response) => {
      const [, status = 500, type = null, body] = answer ?? [];
      response
        .writeHead(status, {
          ...(type === null ? {} : { "content-type": type }),
          "x-private": "not passed",
          location: "/elsewhere",
        })
        .end(body);
    });
    const relay = await start(downstream.url);
    for (answer of answers) {
      const [name, status, type, body, state] = answer;
      const given = await send(relay);
      expect([name, given.status, given.headers["content-type"] ?? null]).toEqual([
        name,
        status,
        type,
      ]);
      expect(Buffer.from(given.body, "utf8").length).toBe(
        Buffer.from(body.toString("utf8")).length,
      );
      expect(given.headers).not.toHaveProperty("x-private");
      expect(given.headers).not.toHaveProperty("location");
      const { event, proxied } = await recorded(relay);
      expect(event).toMatchObject({
        event: "automation.request",
        disposition: "routed",
        body: Buffer.from('{"step":1}').toString("base64"),
      });
      expect(proxied).toMatchObject({ state, attempts: 1, attemptHistory: [{ status }] });
      if (state === "dead") expect(proxied.reason).toContain(String(status));
    }
    // One exchange for each: nothing was sent again, also not after a failure.
    expect(downstream.seen.length).toBe(answers.length);
    expect(
      await metric(relay, "relay_events_total", { source: "flows", disposition: "routed" }),
    ).toBe(answers.length);
    expect(await metric(relay, "relay_delivery_attempts_total", { route: "proxy:flows" })).toBe(
      answers.length,
    );
    await nothingInFlight(relay);
  });

  test("passes a compressed answer back with its content encoding", async () => {
    const body = gzipSync('{"next":"greet"}');
    const downstream = await startHttp((_request, response) =>
      response
        .writeHead(200, { "content-encoding": "gzip", "content-type": "application/json" })
        .end(body),
    );
    const relay = await start(downstream.url);
    const answer = await fetch(`${relay.url}/webhooks/flows`, {
      method: "POST",
      body: '{"a":1}',
      headers: { "x-acme-signature": signature('{"a":1}') },
    });
    expect(await answer.json()).toEqual({ next: "greet" });
  });

  test("sends the downstream the bytes, their type, the event's id and, if configured, the original signature", async () => {
    const downstream = await startHttp((_request, response) => response.end());
    const relay = await start(downstream.url, {
      passSignature: true,
      headers: { "x-team": "flows" },
    });
    const body = Buffer.from([1, 2, 255]);
    const headers = {
      "x-acme-signature": signature(body),
      "content-type": "x-any/thing",
      "content-encoding": "x-any",
    };
    expect(
      (await fetch(`${relay.url}/webhooks/flows`, { method: "POST", headers, body })).status,
    ).toBe(200);
    const { proxied } = await recorded(relay);
    expect(downstream.seen[0]?.body.equals(body)).toBe(true);
    expect(downstream.seen[0]?.headers).toMatchObject({
      ...headers,
      "webhook-id": proxied.id,
      "webhook-attempt": "1",
      "x-wamid-relay-event": "automation.request",
      "x-team": "flows",
    });
  });
});

describe("without an answer from the downstream, the step gets an error and the delivery is dead", () => {
  test("larger than 1 MiB, declared or endless: 502 without any part of it", async () => {
    let isEndless = false;
    const downstream = await startHttp((_request, response) => {
      const more = () => {
        while (response.write(Buffer.alloc(65_536, 97))) if (response.destroyed) return;
      };
      if (isEndless) more();
      else response.end(Buffer.alloc(mebibyte + 1, 97));
      response.on("drain", more);
    });
    const relay = await start(downstream.url);
    for (isEndless of [false, true]) {
      const answer = await send(relay);
      expectError(answer, "downstream_failed");
      expect(answer.json?.error).toContain("larger than 1 MiB");
      const { proxied } = await recorded(relay);
      expect(proxied).toMatchObject({
        state: "dead",
        reason: expect.stringContaining("larger than 1 MiB"),
        attempts: 1,
      });
      expect(proxied.attemptHistory).toMatchObject([
        { status: 200, response: expect.stringMatching(/^a{4096}$/) },
      ]);
    }
    await until("the endless one is cut", () => downstream.open.size <= 1);
    await nothingInFlight(relay);
  });

  test("down, reset, unknown name: 502", async () => {
    const reset = await startRaw((socket) => socket.on("data", () => socket.resetAndDestroy()));
    const relay = await start(reset.url);
    for (const [url, error] of [
      [reset.url, "reset"],
      [`http://127.0.0.1:${await freePort()}/`, "connect"],
      ["http://downstream.invalid/", "dns"],
    ] as const) {
      relay.writeSettings(settings(url));
      await relay.reload();
      const answer = await send(relay);
      expectError(answer, "downstream_failed");
      expect(answer.json?.error).toContain(`(${error})`);
      const { proxied } = await recorded(relay);
      expect(proxied).toMatchObject({
        state: "dead",
        attempts: 1,
        attemptHistory: [{ status: null, error }],
      });
      expect(proxied.reason).toContain(error);
    }
  });

  test("hanging, or dripping past the deadline: 504 in time, and other steps do not wait", async () => {
    const hanging = new Set<string>();
    const downstream = await startHttp((request, response) => {
      const path = request.headers["x-acme-signature"];
      hanging.add(String(path));
      if (hanging.size === 1) return;
      response.writeHead(200);
      const timer = setInterval(() => response.write("."), 20);
      response.on("close", () => clearInterval(timer));
    });
    const relay = await start(downstream.url, { timeout: "700ms", passSignature: true });
    for (const body of ["hangs", "drips"]) {
      const startedAt = performance.now();
      expectError(await send(relay, body), "downstream_timeout");
      const tookMs = performance.now() - startedAt;
      expect(tookMs).toBeGreaterThan(650);
      expect((await recorded(relay)).proxied).toMatchObject({
        state: "dead",
        attempts: 1,
        attemptHistory: [{ error: "timeout" }],
      });
    }
    await nothingInFlight(relay);
  });
});

test("stores the event before it forwards it, and other routes get their copy", async () => {
  const others = await openDownstream();
  let seenInStore: unknown = null;
  let relay: RelayHere | null = null;
  const downstream = await startHttp((_request, response) => {
    void (async () => {
      seenInStore = (await relay?.ask("/v1/events?source=flows&limit=1"))?.body;
      response.writeHead(503).end("no");
    })();
  });
  relay = await start(downstream.url, {}, [
    routeTo(`${others.url}/copy`, {
      name: "copy",
      match: { events: ["automation.request"], where: { step: 1 } },
    }),
    routeTo(`${others.url}/not`, { name: "not", match: { where: { step: 2 } } }),
  ]);
  expect((await send(relay)).status).toBe(503);
  expect(seenInStore).toMatchObject({
    data: [{ event: "automation.request", disposition: "routed" }],
  });
  await until("the copy arrives", () => others.counts("/copy").taken === 1);
  const { proxied, others: deliveries } = await recorded(relay);
  expect(proxied.state).toBe("dead");
  expect(deliveries).toMatchObject([{ route: "copy", state: "delivered" }]);
  expect(others.counts("/not").arrivals).toBe(0);
});

test("neither retry nor replay sends a failed exchange again", async () => {
  const downstream = await startHttp((_request, response) => response.writeHead(500).end("no"));
  const relay = await start(downstream.url);
  await send(relay);
  const { proxied } = await recorded(relay);
  const retried = await relay.ask(`/v1/deliveries/${proxied.id}/retry`, { method: "POST" });
  expect(retried).toMatchObject({
    status: 409,
    body: { code: "conflict", error: expect.stringContaining("proxy:flows") },
  });
  const replayed = await relay.ask("/v1/replay", { method: "POST", body: {} });
  expect(replayed).toMatchObject({ status: 200, body: { replayed: 0 } });
  expect(
    await relay.ask("/v1/replay", { method: "POST", body: { route: "proxy:flows" } }),
  ).toMatchObject({ status: 404 });
  // The next one goes out as ever: the refusals above were no accident of a relay that is stuck.
  await send(relay);
  expect(downstream.seen.length).toBe(2);
  expect((await recorded(relay)).proxied).toMatchObject({ attempts: 1, state: "dead" });
  await relay.stop();
  await relay.start();
  await send(relay);
  expect(downstream.seen.length).toBe(3);
});

test("after a kill during the exchange the delivery is dead, with the reason, and is not sent again", {
  tags: ["slow"],
}, async () => {
  const downstream = await openDownstream();
  downstream.fail("hang");
  const relay = await startRelay({ settings: settings(downstream.url) });
  const connection = await connect(relay.port);
  await connection.write(requestBytes({ target: "/webhooks/flows", body: '{"step":1}' }));
  await until("it is at the downstream", () => downstream.counts().arrivals === 1);
  await relay.kill9();
  downstream.recover();
  // Also when the source has gone from the settings since.
  relay.writeSettings({});
  await relay.start();
  const { event, proxied } = await recorded(relay);
  expect(event).toMatchObject({ disposition: "routed" });
  expect(proxied).toMatchObject({
    state: "dead",
    reason: expect.stringContaining("the relay stopped during the exchange"),
    attempts: 0,
    attemptHistory: [],
  });
  expect(downstream.counts().arrivals).toBe(1);
  expect((await relay.ask("/v1/stats")).body).toMatchObject({
    deliveries: { waiting: 0, held: 0, dead: 1 },
  });
  relay.writeSettings(settings(downstream.url));
  await relay.stop();
  await relay.start();
  expect((await send(relay)).status).toBe(200);
  expect(downstream.counts().arrivals).toBe(2);
  connection.socket.destroy();
});

test("finishes the exchange of a step that disconnected, and keeps nothing in flight", async () => {
  const held: (() => void)[] = [];
  const downstream = await startHttp((_request, response) => held.push(() => response.end("late")));
  const relay = await start(downstream.url, { timeout: "9500ms" });
  const connection = await connect(relay.port);
  await connection.write(requestBytes({ target: "/webhooks/flows", body: '{"step":1}' }));
  await until("it is at the downstream", () => held.length === 1);
  connection.socket.resetAndDestroy();
  // Its answer comes after the reset, on the same event loop.
  expect((await relay.ask("/healthz")).status).toBe(200);
  held[0]?.();
  await nothingInFlight(relay);
  expect((await recorded(relay)).proxied).toMatchObject({
    state: "delivered",
    attemptHistory: [{ status: 200, response: "late" }],
  });
});
