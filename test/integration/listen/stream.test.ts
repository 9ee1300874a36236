// Slow: it fills the buffers of a listener that never reads.
import { once } from "node:events";
import { connect } from "node:net";
import { type EventSourceMessage, EventSourceParserStream } from "eventsource-parser/stream";
import { describe, expect, onTestFinished, test } from "vitest";
import { engines, storageOf } from "../../harness/engines.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { type AnyRelay, startRelayHere } from "../../harness/relay-here.ts";
import { relayToken } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { post, standsAt, startListenHere } from "./listener.ts";
import { openLocalServer } from "./local-server.ts";

const messages = createMessages("stream");
const authorization = `Bearer ${relayToken}`;

interface Reader {
  readonly status: number;
  /** All but events. */
  readonly messages: EventSourceMessage[];
  /** Of the events. */
  seqs(): number[];
  close(): void;
}

/** Somebody who listens with nothing but fetch. */
async function listen(
  relay: AnyRelay,
  query = "",
  headers: Readonly<Record<string, string>> = {},
): Promise<Reader> {
  const closing = new AbortController();
  onTestFinished(() => closing.abort());
  const answer = await fetch(`${relay.url}/v1/listen${query}`, {
    headers: { authorization, ...headers },
    signal: closing.signal,
  });
  const read: EventSourceMessage[] = [];
  const seqs: number[] = [];
  void (async () => {
    for await (const message of answer.body
      ?.pipeThrough(new TextDecoderStream())
      .pipeThrough(new EventSourceParserStream()) ?? []) {
      if (message.event === "event") seqs.push(Number(message.id));
      else read.push(message);
    }
  })().catch(() => {});
  return {
    status: answer.status,
    messages: read,
    seqs: () => seqs,
    close: () => closing.abort(),
  };
}

const gauge = async (relay: AnyRelay, name: string): Promise<number> => {
  const text = String((await relay.ask("/metrics")).body);
  return Number(
    text
      .split("\n")
      .find((line) => line.startsWith(`${name} `))
      ?.split(" ")[1],
  );
};

describe.each(engines)("on %s", (engine) => {
  test("begins now, after a seq, after the last event received, at a time, or where a named listener stopped", async () => {
    const relay = await startRelayHere({ settings: await storageOf(engine) });
    await post(relay, 4);
    const now = await listen(relay);
    const all = await listen(relay, "?since=1h");
    const after = await listen(relay, "?after=2");
    const resumed = await listen(relay, "?since=1h&latest=true", { "last-event-id": "3" });
    const none = await listen(relay, `?since=${encodeURIComponent("2100-01-01T00:00:00Z")}`);
    expect(
      await relay.ask("/v1/listen/cursors/ana", { method: "POST", body: { seq: 1 } }),
    ).toMatchObject({
      body: { name: "ana", seq: 1 },
    });
    const named = await listen(relay, "?as=ana");
    const latest = await listen(relay, "?as=ana&latest=true");
    await post(relay, 1);
    await until("all came", () =>
      [now, all, after, resumed, none, named, latest].every((reader) => reader.seqs().at(-1) === 5),
    );
    expect(now.seqs()).toEqual([5]);
    expect(all.seqs()).toEqual([1, 2, 3, 4, 5]);
    expect(after.seqs()).toEqual([3, 4, 5]);
    expect(resumed.seqs()).toEqual([4, 5]);
    expect(none.seqs()).toEqual([5]);
    expect(named.seqs()).toEqual([2, 3, 4, 5]);
    expect(latest.seqs()).toEqual([5]);
    const [hello] = now.messages;
    expect(hello).toMatchObject({ event: "hello", id: "4" });
    expect(JSON.parse(hello?.data ?? "")).toMatchObject({
      after: 4,
      newest: 4,
      reset: false,
      relay: expect.any(String),
      retentionMs: 30 * 86_400_000,
    });
    // It knows of events that this store never had.
    const stranger = await listen(relay, "", { "last-event-id": "900" });
    await until("it is greeted", () => stranger.messages.length === 1);
    expect(JSON.parse(stranger.messages[0]?.data ?? "")).toMatchObject({ after: 5, reset: true });
  });
});

test("a cursor moves neither back nor beyond the newest event, and reports both errors", async () => {
  const relay = await startRelayHere();
  await post(relay, 3);
  const move = async (name: string, body: unknown) =>
    (await relay.ask(`/v1/listen/cursors/${name}`, { method: "POST", body })).body;
  expect(await move("ana", { seq: 3 })).toEqual({ name: "ana", seq: 3 });
  expect(await move("ana", { seq: 1 })).toEqual({ name: "ana", seq: 3 });
  expect(await move("ana", { seq: 4 })).toMatchObject({ code: "bad_request" });
  expect(await move("ana%20maria", { seq: 1 })).toMatchObject({ code: "bad_request" });
  expect(await move("ana", {})).toMatchObject({ code: "bad_request" });
  for (const query of [
    "?after=-1",
    "?where=%7B",
    "?where=%7B%22a%22:%5B1%5D%7D",
    "?event=x",
    "?events=a,,b",
  ])
    expect([query, (await listen(relay, query)).status]).toEqual([query, 400]);
});

test("reports how many events retention deleted, and sends the rest", async () => {
  const relay = await startRelayHere({
    settings: { retention: { events: "1s", deliveries: "1s", ignored: "1s", messages: "1s" } },
  });
  const local = await openLocalServer();
  const args = ["--forward-to", local.url, "--as", "ana"];
  const before = startListenHere(relay.url, args);
  await before.live();
  await post(relay, 1);
  await until("it is taken", () => local.taken().length === 1);
  await standsAt(relay, "ana", 1);
  expect(await before.stop()).toBe(0);
  await post(relay, 5);
  await until(
    "retention left one",
    async () => ((await relay.ask("/v1/events")).body as { data: unknown[] }).data.length === 1,
  );
  const back = startListenHere(relay.url, args);
  await until("the last one is taken", () => local.taken().length === 2);
  expect(back.out()).toContain(
    "!!! retention deleted 4 events before they could be listened to (seq 2 to 5)",
  );
});

test("answers 400 to a Last-Event-ID that is no seq instead of skipping events, and treats an empty one as absent", async () => {
  const relay = await startRelayHere();
  await post(relay, 2);
  for (const id of [
    "three",
    "-1",
    "1.5",
    "0x3",
    "3, 4",
    "1e3",
    "9".repeat(16),
    "01998d3e-7c1a-7000-8000-000000000001",
  ]) {
    const answer = await fetch(`${relay.url}/v1/listen`, {
      headers: { authorization, "last-event-id": id },
    });
    expect([id, answer.status, await answer.json()]).toMatchObject([
      id,
      400,
      { code: "bad_request", details: [{ path: "last-event-id" }] },
    ]);
  }
  const reader = await listen(relay, "?after=1", { "last-event-id": "" });
  await until("the second event", () => reader.seqs().length > 0);
  expect(reader.seqs()).toEqual([2]);
});

test("ends the stream of a token that was removed from the settings", async () => {
  const tokens = (...names: string[]) => ({
    control: {
      tokens: ["harness", ...names].map((name) => ({
        name,
        token: name === "harness" ? relayToken : `token-of-${name}-0001`,
        scopes: ["read", "listen"],
      })),
    },
  });
  const relay = await startRelayHere({ settings: tokens("ana") });
  const ana = await listen(relay, "", { authorization: "Bearer token-of-ana-0001" });
  const other = await listen(relay);
  await post(relay, 1);
  await until("both hear", () => ana.seqs().length === 1 && other.seqs().length === 1);
  relay.writeSettings(tokens());
  await relay.reload();
  await post(relay, 1);
  await until("the other hears", () => other.seqs().length === 2);
  await until("it is told", () => ana.messages.at(-1)?.event === "bye");
  expect(ana.seqs()).toEqual([1]);
});

// Longer than a test takes: whoever listens would hold up the end for so long. A connection that
// fetch opened and never used does so for ten seconds (`server.requestTimeout`), which is none of
// this test's business.
const patient = { server: { shutdownTimeout: "60s" } };

test("accepts 100 listeners at most, and another one when one leaves", async () => {
  const relay = await startRelayHere({ settings: patient });
  const readers = await Promise.all(Array.from({ length: 100 }, () => listen(relay)));
  expect(readers.map(({ status }) => status)).toEqual(readers.map(() => 200));
  const more = await relay.ask("/v1/listen");
  expect([more.status, more.headers.get("retry-after"), more.body]).toMatchObject([
    503,
    "30",
    { code: "too_many_listeners" },
  ]);
  expect(await gauge(relay, "relay_listeners")).toBe(100);
  readers[0]?.close();
  const next = await until("there is room", async () => {
    const reader = await listen(relay);
    return reader.status === 200 ? reader : null;
  });
  await post(relay, 1);
  await until("those there are hear it", () =>
    [...readers.slice(1), next].every((reader) => reader.seqs().length === 1),
  );
  // Sooner than `server.shutdownTimeout`, or the test's time is over.
  await relay.stop();
  await until("the last one has its bye", () => next.messages.at(-1)?.event === "bye");
});

/** Somebody who listens and never reads a byte. */
async function listenDeaf(relay: AnyRelay): Promise<void> {
  const socket = connect(relay.port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => {});
  await once(socket, "connect");
  socket.pause();
  socket.write(`GET /v1/listen HTTP/1.1\r\nhost: relay\r\nauthorization: ${authorization}\r\n\r\n`);
}

const pad = "x".repeat(8_000);
async function postLarge(relay: AnyRelay, count: number): Promise<void> {
  let left = count;
  const one = async (): Promise<void> => {
    while (left-- > 0) {
      const event = messages.event();
      await postEvent(
        relay.webhookUrl,
        Buffer.from(JSON.stringify({ ...event, data: { ...event.data, pad } })),
      );
    }
  };
  await Promise.all(Array.from({ length: 16 }, one));
}

const lagsOf = async (relay: AnyRelay): Promise<number[]> =>
  [
    ...String((await relay.ask("/metrics")).body).matchAll(
      /^relay_listener_events_behind\{listener="\d+"\} (\d+)$/gm,
    ),
  ].map(([, behind]) => Number(behind));

test.each(engines)(
  "on %s, one of twenty listeners that never reads does not delay the others",
  { tags: ["slow"] },
  async (engine) => {
    const relay = await startRelayHere({ settings: await storageOf(engine) });
    await listenDeaf(relay);
    await until("it listens", async () => (await gauge(relay, "relay_listeners")) === 1);
    const others = await Promise.all(Array.from({ length: 19 }, () => listen(relay)));
    const count = 700;
    await postLarge(relay, count);
    await until("the others have all", () =>
      others.every((reader) => reader.seqs().length === count),
    );
    for (const reader of others)
      expect(reader.seqs()).toEqual(Array.from({ length: count }, (_, n) => n + 1));
    const [deaf = 0] = await until("the others are not behind", async () => {
      const [first, ...lags] = await lagsOf(relay);
      return lags.every((behind) => behind === 0) && [first, ...lags];
    });
    expect(deaf).toBeGreaterThan(100);

    const times: number[] = [];
    for (let n = 1; n <= 20; n++) {
      const postedAt = performance.now();
      await post(relay, 1);
      await until("all heard it", () =>
        others.every((reader) => reader.seqs().at(-1) === count + n),
      );
      times.push(performance.now() - postedAt);
    }
    times.sort((a, b) => a - b);
    // Some 15 ms on a machine that does nothing else. A relay that waited for the deaf one would
    // wait for minutes.
    expect(times[10]).toBeLessThan(5_000);
  },
);

test("rejects an unsupported pattern, too many patterns, and too many words, with the reason", async () => {
  const relay = await startRelayHere();
  const refused = async (query: string) =>
    (await relay.ask(`/v1/listen?${query}`)) as { status: number; body: { error: string } };
  const where = (condition: unknown) =>
    refused(`where=${encodeURIComponent(JSON.stringify(condition))}`);
  expect(await where({ a: { $regex: "a(?=b)" } })).toMatchObject({
    status: 400,
    body: {
      code: "bad_request",
      error: expect.stringMatching(/^where\.a\.\$regex: is not supported: look-around/),
    },
  });
  expect((await where({ a: { $regex: "(a{1000}){1000}" } })).body.error).toMatch(/is too large/);
  expect(
    (await where({ $or: Array.from({ length: 11 }, () => ({ a: { $regex: "a" } })) })).body.error,
  ).toMatch(/at most 10$/);
  expect(
    (await refused(`events=${Array.from({ length: 101 }, (_, n) => `a*${n}`).join(",")}`)).body
      .error,
  ).toMatch(/more than 100 words/);
});
