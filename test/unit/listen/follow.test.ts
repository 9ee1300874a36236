import { expect, onTestFinished, test } from "vitest";
import { follow, type Opened, type StreamState } from "../../../src/cli/listen/follow.ts";
import { createManualClock, settled } from "../../harness/manual-clock.ts";

const hello = (after: number, more: object = {}) =>
  `id: ${after}\nevent: hello\ndata: ${JSON.stringify({ relay: "1.0.0", after, newest: after, reset: false, keptFrom: null, ...more })}\n\n`;
const event = (seq: number) =>
  `id: ${seq}\nevent: event\ndata: ${JSON.stringify({
    seq,
    id: `e${seq}`,
    event: "message.status",
    source: "main",
    account: "main",
    origin: "webhook",
    receivedAt: "2026-11-21T12:00:00.000Z",
    disposition: "filtered",
    status: null,
    subject: null,
    tracked: false,
    headers: {},
    body: "",
  })}\n\n`;
const gap = (from: number, to: number) => `event: gap\ndata: ${JSON.stringify({ from, to, count: to - from + 1 })}\n\n`;

/** A listener whose connections are the given ones, in turn; the last stays open. */
function start(connections: readonly (readonly string[] | Opened)[], take = async (_seq: number): Promise<void> => {}) {
  const clock = createManualClock();
  const opened: (number | null)[] = [];
  const taken: number[] = [];
  const states: StreamState[] = [];
  const gaps: number[] = [];
  const quit = new AbortController();
  const following = follow(
    {
      async open(after, signal) {
        const next = connections[opened.length];
        opened.push(after);
        if (next !== undefined && !("length" in next)) return next;
        const isLast = opened.length >= connections.length;
        return {
          ok: true,
          close: () => {},
          body: (async function* () {
            for (const text of next ?? []) yield Buffer.from(text);
            if (isLast) await new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))));
          })(),
        };
      },
      async take({ seq }) {
        await take(seq);
        taken.push(seq);
      },
      onHello: () => {},
      onGap: ({ to }) => void gaps.push(to),
      onPlace: () => {},
      onState: (state) => void states.push(state),
      clock,
      random: () => 1,
    },
    quit.signal,
  );
  onTestFinished(() => quit.abort());
  return { clock, opened, taken, states, gaps, quit, following };
}

test("waits at most five minutes, whatever Retry-After says", async () => {
  const no: Opened = { ok: false, why: "busy", retryAfterMs: null, lasting: false };
  const { clock, states } = start([{ ...no, retryAfterMs: 99_999_999_000 }, { ...no, retryAfterMs: -99_999_999_000 }, [hello(0)]]);
  await clock.advance(310_000);
  expect(states.flatMap((state) => (state.is === "waiting" ? [state.ms] : []))).toEqual([300_000, expect.any(Number)]);
});

test("continues after the last accepted event, ignores repeated events, and reports a gap once", async () => {
  const { clock, opened, taken, gaps } = start([
    [hello(4), event(5), gap(6, 7), event(8)],
    [hello(8), event(7), event(8), gap(6, 7), event(9), 'event: bye\ndata: {"reason":"the relay is stopping"}\n\n'],
    [hello(9), 'id: 30\nevent: at\ndata: {"seq":30,"newest":30}\n\n'],
    [hello(30)],
  ]);
  await clock.advance(120_000);
  // The last one stays silent, so it is opened again and again.
  expect(opened.slice(0, 4)).toEqual([null, 8, 9, 30]);
  expect(taken).toEqual([5, 8, 9]);
  expect(gaps).toEqual([7]);
});

test("after a connection lost before the first event, continues from the start position", async () => {
  const { clock, opened } = start([[hello(4)], [hello(4)]]);
  await clock.advance(2_000);
  expect(opened).toEqual([null, 4]);
});

test("requests an event again that was not accepted", async () => {
  let isDown = true;
  const { clock, opened, taken } = start(
    [
      [hello(0), event(1), event(2)],
      [hello(1), event(2)],
    ],
    async (seq) => {
      if (seq === 2 && isDown) {
        isDown = false;
        throw new Error("not taken");
      }
    },
  );
  await clock.advance(2_000);
  expect(opened).toEqual([null, 1]);
  expect(taken).toEqual([1, 2]);
});

test("ignores silence while an event is being delivered", async () => {
  const later = Promise.withResolvers<void>();
  const { clock, opened, taken, states } = start([[hello(0), event(1)]], () => later.promise);
  await clock.advance(3_600_000);
  expect([opened.length, states.at(-1)?.is]).toEqual([1, "live"]);
  later.resolve();
  await settled();
  expect(taken).toEqual([1]);
});

test("grows its pauses, resets them after success, and honors Retry-After", async () => {
  const no: Opened = { ok: false, why: "the relay says: no", retryAfterMs: null, lasting: false };
  const { clock, states } = start([no, no, no, { ...no, retryAfterMs: 20_000 }, [hello(0), event(1)], [hello(1)]]);
  await clock.advance(40_000);
  expect(states.flatMap((state) => (state.is === "waiting" ? [state.ms] : []))).toEqual([500, 1_000, 2_000, 20_000, 500]);
});

test("a permanent refusal ends the first connection, and later ones wait", async () => {
  const no: Opened = { ok: false, why: "the relay says: unknown token", retryAfterMs: null, lasting: true };
  const first = start([no]);
  await expect(first.following).rejects.toThrow("unknown token");
  const later = start([[hello(0)], no, no, [hello(0), event(1)]]);
  await later.clock.advance(10_000);
  expect(later.taken).toEqual([1]);
  expect(later.states.filter((state) => state.is === "waiting" && state.why.includes("unknown token")).length).toBe(2);
});

test("continues where another store starts", async () => {
  const { clock, opened } = start([[hello(900)], [hello(5, { reset: true })], [hello(5)]]);
  await clock.advance(3_000);
  expect(opened).toEqual([null, 900, 5]);
});

test("rejects a stream that is not a relay's", async () => {
  const { clock, states } = start([["data: hello\n\n"], [event(1)], [hello(0)]]);
  await clock.advance(3_000);
  expect(states.flatMap((state) => (state.is === "waiting" ? [state.why] : []))).toEqual([
    "the stream is not that of a wamid-relay",
    "the stream is not that of a wamid-relay",
  ]);
});
