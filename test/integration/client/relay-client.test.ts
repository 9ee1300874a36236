import type { RequestListener } from "node:http";
import { expect, test } from "vitest";

import {
  createRelayClient,
  type MessageRegistration,
  RelayClient,
  RelayClientError,
} from "../../../src/client/relay-client.ts";
import type { TrackedLine } from "../../../src/model/answers/subjects.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { type AnyRelay, startRelayHere } from "../../harness/relay-here.ts";
import { startRelay } from "../../harness/relay-process.ts";
import { relayToken, routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { startHttp } from "../url-destination/downstream.ts";

const clientOf = (relay: AnyRelay) => new RelayClient({ url: relay.url, token: relayToken });
const message = (n: number, more: Partial<MessageRegistration> = {}): MessageRegistration => ({
  account: "main",
  wamid: `w${n}`,
  ...more,
});

async function failure(promise: Promise<unknown>): Promise<RelayClientError> {
  const error = await promise.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(RelayClientError);
  return error as RelayClientError;
}

/** Something else that answers. */
const serverOf = async (handle: RequestListener) => new URL((await startHttp(handle)).url).origin;

test("registers, reads, replays and resumes", async () => {
  const downstream = await openDownstream();
  const relay = await startRelayHere({
    settings: { routes: [routeTo(downstream.url, { to: { retry: { schedule: ["0s"] } } })] },
  });
  const client = clientOf(relay);
  const messages = createMessages("client");
  const wamid = messages.wamid();
  const sentAt = new Date("2026-11-01T00:00:00Z");
  expect(
    await client.track({
      account: "main",
      wamid,
      reference: "order-1",
      metadata: { a: [1] },
      sentAt,
    }),
  ).toEqual({ result: "created" });
  expect(await client.track({ account: "main", wamid, metadata: { a: [1], b: null } })).toEqual({
    result: "known",
  });
  const conflict = await failure(
    client.track({ account: "main", wamid, reference: "order-2", metadata: { a: [2] } }),
  );
  expect(conflict).toMatchObject({
    status: 409,
    code: "conflict",
    line: null,
    details: {
      reference: { stored: "order-1", given: "order-2" },
      "metadata.a": { stored: [1], given: [2] },
    },
  });
  expect(conflict.message).toContain('"order-1", not "order-2"');

  downstream.fail({ status: 500 });
  for (const status of ["sent", "delivered", "read"] as const)
    await postEvent(relay.webhookUrl, messages.status(wamid, status));
  await until("all are dead", async () => (await client.getStats()).deliveries["dead"] === 3);
  downstream.recover();
  const events = await Array.fromAsync(
    client.events({ wamid, from: new Date(Date.now() - 60_000) }),
  );
  expect(events.map(({ status }) => status)).toEqual(["read", "delivered", "sent"]);
  expect(await Array.fromAsync(client.events({ wamid, limit: 2 }))).toEqual(events.slice(0, 2));
  const detail = await client.getEvent({ id: events[0]?.seq ?? 0 });
  expect(await client.getEvent({ id: String(detail.id), account: "main" })).toEqual(detail);
  expect(detail.deliveries[0]?.attemptHistory[0]?.status).toBe(500);

  const dead = await Array.fromAsync(client.deliveries({ state: "dead" }));
  expect(dead.length).toBe(3);
  expect(await client.retryDelivery({ id: dead.at(-1)?.id ?? "" })).toMatchObject({
    previousState: "dead",
    state: "waiting",
  });
  await until(
    "one is delivered",
    async () => (await client.getStats()).deliveries["delivered"] === 1,
  );
  expect(await client.countReplay({ route: "everything" })).toMatchObject({ matching: 2 });
  expect(await client.replay()).toEqual({ replayed: 2, complete: true });
  await until(
    "all are delivered",
    async () => (await client.getStats()).deliveries["delivered"] === 3,
  );
  expect(await client.resumeRoute({ route: "everything" })).toMatchObject({ resumed: false });
  expect(await failure(client.resumeRoute({ route: "none/such route" }))).toMatchObject({
    status: 404,
    code: "not_found",
  });
});

test("pages through events on demand", async () => {
  const asked: string[] = [];
  const url = await serverOf((request, response) => {
    asked.push(request.url ?? "");
    const query = new URL(request.url ?? "", "http://x").searchParams;
    const from = Number(query.get("before") ?? 1_201);
    const data = Array.from({ length: Math.min(Number(query.get("limit")), from - 1) }, (_, n) => ({
      seq: from - 1 - n,
    }));
    const last = data.at(-1)?.seq ?? 1;
    response.end(JSON.stringify({ data, next: last > 1 ? last : null }));
  });
  const client = new RelayClient({ url: `${url}/relay/`, token: "t" });
  expect((await Array.fromAsync(client.events())).map(({ seq }) => seq)).toEqual(
    Array.from({ length: 1_200 }, (_, n) => 1_200 - n),
  );
  expect(asked).toEqual(["/relay/v1/events?limit=1000", "/relay/v1/events?before=201&limit=1000"]);
  asked.length = 0;
  for await (const { seq } of client.deliveries({ route: "a&b" }) as AsyncIterable<{
    seq?: number;
  }>)
    if (seq === 1_199) break;
  expect(asked).toEqual(["/relay/v1/deliveries?route=a%26b&limit=1000"]);
});

test("trackAll: registers thousands from a generator, and yields results in order and the sums", async () => {
  const relay = await startRelayHere();
  const client = clientOf(relay);
  await client.track(message(7, { reference: "taken" }));
  function* messages() {
    for (let n = 1; n <= 2_345; n += 1)
      yield message(n === 2_000 ? 1 : n, { reference: n === 2_000 ? "order-1" : `order-${n}` });
    yield { account: "main", wamid: "" };
  }
  const report = client.trackAll(messages());
  const lines: TrackedLine[] = [];
  let step = await report.next();
  for (; step.done !== true; step = await report.next()) lines.push(step.value);
  expect(step.value).toEqual({ lines: 2_346, created: 2_343, known: 1, conflict: 1, invalid: 1 });
  expect(lines.map(({ line }) => line)).toEqual(Array.from({ length: 2_346 }, (_, n) => n + 1));
  expect(lines[6]).toMatchObject({
    wamid: "w7",
    result: "conflict",
    details: { reference: { stored: "taken", given: "order-7" } },
  });
  expect(lines[1_999]).toEqual({ line: 2_000, wamid: "w1", result: "known" });
  expect(lines.at(-1)).toMatchObject({ line: 2_346, result: "invalid" });
});

test("trackAll: registers while its source is running, and stops the source when the reader stops", async () => {
  const relay = await startRelayHere();
  const client = clientOf(relay);
  let isOver = false;
  let goOn = () => {};
  async function* live() {
    try {
      yield message(1);
      await new Promise<void>((resolve) => {
        goOn = resolve;
      });
      yield message(2);
      yield message(3);
    } finally {
      isOver = true;
    }
  }
  const seen: string[] = [];
  for await (const { wamid } of client.trackAll(live())) {
    seen.push(String(wamid));
    goOn();
    if (wamid === "w2") break;
  }
  expect(seen).toEqual(["w1", "w2"]);
  await until("the source has ended", () => isOver);
});

test("trackAll: an error reports where to continue", async () => {
  const relay = await startRelay();
  const client = clientOf(relay);
  const seen: number[] = [];
  const messages = Array.from({ length: 3_000 }, (_, n) => message(n));
  const error = await failure(
    (async () => {
      for await (const { line } of client.trackAll(messages)) {
        seen.push(line);
        if (line === 1_500) await relay.kill9();
      }
    })(),
  );
  expect(error).toMatchObject({ status: 0, code: "no_answer", line: 2_001 });
  expect(seen.length).toBe(2_000);
  await relay.start();
  const rest = await Array.fromAsync(client.trackAll(messages.slice((error.line ?? 0) - 1)));
  expect(rest.length).toBe(1_000);

  const last =
    '{"line":1,"wamid":"w0","result":"created"}\n{"lines":1,"created":1,"known":0,"conflict":0,"invalid":0,"stoppedAt":2,"error":"full","code":"store_unavailable"}\n';
  const url = await serverOf((_request, response) => void response.end(last));
  expect(
    await failure(
      Array.fromAsync(new RelayClient({ url, token: "t" }).trackAll(messages.slice(0, 5))),
    ),
  ).toMatchObject({
    code: "store_unavailable",
    message: "full",
    line: 2,
  });
});

test("distinguishes another server, no answer and a rejection, without the token in any message", async () => {
  const token = "a-secret-token";
  const relay = await startRelayHere();
  expect(await failure(new RelayClient({ url: relay.url, token }).getStats())).toMatchObject({
    status: 401,
    code: "unauthorized",
  });
  const page = await serverOf((_, response) => response.end("<html>"));
  expect(await failure(new RelayClient({ url: page, token }).getStats())).toMatchObject({
    status: 200,
    code: "bad_answer",
  });
  const busy = await serverOf((_, response) => response.writeHead(502).end("Bad gateway"));
  expect(await failure(new RelayClient({ url: busy, token }).getStats())).toMatchObject({
    status: 502,
    code: "bad_answer",
  });
  let elsewhere = 0;
  const other = await serverOf(() => {
    elsewhere += 1;
  });
  const moved = await serverOf((_, response) => response.writeHead(307, { location: other }).end());
  expect(await failure(new RelayClient({ url: moved, token }).getStats())).toMatchObject({
    status: 307,
    code: "bad_answer",
  });
  expect(elsewhere).toBe(0);
  const silent = await serverOf(() => {});
  const late = await failure(new RelayClient({ url: silent, token, timeoutMs: 50 }).getStats());
  expect(late).toMatchObject({
    status: 0,
    code: "no_answer",
    message: `no answer from ${silent} within 50 ms`,
  });
  const ended = new AbortController();
  const waiting = failure(new RelayClient({ url: silent, token, signal: ended.signal }).getStats());
  ended.abort();
  expect(await waiting).toMatchObject({ code: "no_answer" });
  for (const wrong of ["", "two words", `${token}\n`]) {
    expect(() => new RelayClient({ url: silent, token: wrong })).toThrow(
      /^token must be text without spaces$/,
    );
  }
  expect(() => new RelayClient({ url: "ftp://relay", token })).toThrow(TypeError);
});

test("without a token, authorizes by the browser's cookie and the console's header", async () => {
  const requests: [url: string, init: RequestInit][] = [];
  const fetch: typeof globalThis.fetch = async (url, init = {}) => {
    requests.push([String(url), init]);
    return Response.json({
      name: "ana",
      scopes: ["read"],
      accounts: null,
      expiresAt: "2026-11-23T17:00:00.000Z",
    });
  };
  const console = createRelayClient({ url: "http://relay.example", fetch });
  expect(await console.getSession()).toMatchObject({ name: "ana" });
  await createRelayClient({ url: "http://relay.example", token: "t", fetch }).getSession();
  expect(requests.map(([url, { headers, credentials }]) => [url, headers, credentials])).toEqual([
    ["http://relay.example/v1/session", { "x-wamid-relay": "console" }, "same-origin"],
    ["http://relay.example/v1/session", { authorization: "Bearer t" }, "omit"],
  ]);
});
