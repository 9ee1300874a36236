// Loaded here, so that the follower, which loads it on demand, waits for no disk while the manual
// clock goes on.
import "eventsource-parser";
import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { RelayClientError } from "../../../src/client/connection.ts";
import {
  follow,
  lost,
  type Step,
  type StreamMessage,
  sleepAware,
} from "../../../src/client/follow.ts";
import type { Clock } from "../../../src/model/clock.ts";
import { pause } from "../../../src/model/clock.ts";
import { createManualClock, settled } from "../../harness/manual-clock.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const message = (id: number, data = "{}") => `id: ${id}\nevent: event\ndata: ${data}\n\n`;
const refusal = (status: number, retryAfterMs: number | null = null) =>
  new RelayClientError(`answered ${status}`, {
    status,
    code: status === 401 ? "unauthorized" : "store_unavailable",
    retryAfterMs,
  });

type Connection = readonly (string | Error)[] | RelayClientError;

/** Follows connections that are the given ones, in turn; the last stays open. */
function start(
  connections: readonly Connection[],
  { isPatient = false, longestWaitMs = 30_000, take = async (_id: string) => {} } = {},
) {
  const clock = createManualClock();
  const opened: (string | null)[] = [];
  const taken: string[] = [];
  const steps: Step<string>[] = [];
  const quit = new AbortController();
  const following = (async () => {
    const all = follow({
      async open(lastEventId, signal) {
        const next = connections[opened.length] ?? [];
        opened.push(lastEventId);
        if (next instanceof RelayClientError) throw next;
        const isLast = opened.length >= connections.length;
        return (async function* () {
          for (const each of next) {
            if (each instanceof Error) throw each;
            yield bytes(each);
          }
          if (isLast)
            await new Promise((_, reject) =>
              signal.addEventListener("abort", () => reject(new Error("aborted"))),
            );
        })();
      },
      read({ data, id = "" }) {
        if (data.startsWith("bad")) throw lost("the stream is not that of a wamid-relay");
        return id;
      },
      isPatient,
      longestWaitMs,
      signal: quit.signal,
      clock,
      random: () => 1,
    });
    for await (const step of all) {
      steps.push(step);
      if (step.kind !== "message") continue;
      await take(step.message);
      taken.push(step.message);
    }
  })();
  following.catch(() => {});
  onTestFinished(() => quit.abort());
  const waits = () => steps.flatMap((step) => (step.kind === "lost" ? [step.retryInMs] : []));
  const reasons = () => steps.flatMap((step) => (step.kind === "lost" ? [step.error.message] : []));
  return { clock, opened, taken, steps, quit, following, waits, reasons };
}

test("waits at most a minute, whatever Retry-After says", async () => {
  const { clock, waits } = start([
    refusal(503, 99_999_999_000),
    refusal(503, -99_999_999_000),
    [message(0)],
  ]);
  await clock.advance(70_000);
  expect(waits()).toEqual([60_000, 1_000]);
});

test("waits no longer than its caller wants", async () => {
  const { clock, waits } = start([...Array.from({ length: 5 }, () => refusal(503)), [message(0)]], {
    longestWaitMs: 2_000,
  });
  await clock.advance(20_000);
  expect(waits()).toEqual([500, 1_000, 2_000, 2_000, 2_000]);
});

test("continues after the last message that the caller is done with", async () => {
  const { clock, opened, taken } = start([
    [message(5), message(8)],
    [message(9), "event: later\ndata: 1\n\n"],
    [message(10)],
  ]);
  await clock.advance(2_000);
  expect(opened).toEqual([null, "8", "9"]);
  expect(taken).toEqual(["5", "8", "9", "", "10"]);
});

test("ignores silence while the caller is busy", async () => {
  const later = Promise.withResolvers<void>();
  const { clock, opened, taken, steps } = start([[message(1)]], { take: () => later.promise });
  await clock.advance(3_600_000);
  expect([opened.length, steps.at(-1)?.kind]).toEqual([1, "message"]);
  later.resolve();
  await settled();
  expect(taken).toEqual(["1"]);
});

test("opens a silent connection again", async () => {
  const { clock, opened, reasons } = start([[message(4)], []]);
  await clock.advance(500);
  await clock.advance(45_000);
  expect([opened, reasons()]).toEqual([
    [null, "4"],
    ["the connection was closed", "no data came for 45 s"],
  ]);
});

test("names a broken connection in words, and keeps the error of fetch as its cause", async () => {
  const broken = new TypeError("terminated");
  const { clock, steps, reasons } = start([[message(4), broken], [message(5)]]);
  await clock.advance(500);
  expect(reasons()).toEqual(["the connection broke"]);
  expect(steps).toContainEqual(
    expect.objectContaining({ kind: "lost", error: expect.objectContaining({ cause: broken }) }),
  );
});

test("grows its pauses, starts anew after a message, and honors Retry-After", async () => {
  const no = refusal(503);
  const { clock, waits } = start([no, no, no, refusal(503, 20_000), [message(1)], [message(2)]]);
  await clock.advance(40_000);
  expect(waits()).toEqual([500, 1_000, 2_000, 20_000, 500]);
});

test("a permanent refusal ends it; a patient one only before the first message", async () => {
  await expect(start([refusal(401)], { isPatient: true }).following).rejects.toThrow(
    "answered 401",
  );
  const later = start([[message(1)], refusal(401), refusal(401), [message(2)]], {
    isPatient: true,
  });
  await later.clock.advance(10_000);
  expect(later.taken).toEqual(["1", "2"]);
  expect(later.reasons().slice(1)).toEqual(["answered 401", "answered 401"]);
  const impatient = start([[message(1)], refusal(401)]);
  await impatient.clock.advance(10_000);
  await expect(impatient.following).rejects.toThrow("answered 401");
});

test("a message that cannot be read breaks the connection, and pauses grow", async () => {
  const { clock, waits, reasons } = start([[message(1, "bad")], [message(1, "bad")], [message(1)]]);
  await clock.advance(3_000);
  expect(waits()).toEqual([500, 1_000]);
  expect(reasons()).toEqual(Array(2).fill("the stream is not that of a wamid-relay"));
});

test("refuses a message without end instead of buffering it for ever", async () => {
  const { clock, reasons } = start([
    Array(101).fill(`data: ${"x".repeat(1024 * 1024)}`),
    [message(1)],
  ]);
  await clock.advance(2_000);
  expect(reasons()).toEqual(["a message of the stream is too long"]);
});

test("reads the same messages wherever the stream is cut", async () => {
  const note = fc.string({ unit: "grapheme" });
  await fc.assert(
    fc.asyncProperty(
      fc.array(note, { maxLength: 10 }),
      fc.array(fc.nat(400), { maxLength: 20 }),
      async (notes, cuts) => {
        const stream = bytes(
          notes
            .map(
              (text, n) =>
                `id: ${n}\nevent: note\ndata: ${JSON.stringify(text)}\n\n: still here\n\n`,
            )
            .join(""),
        );
        const places = [
          ...new Set([0, ...cuts.map((cut) => Math.min(cut, stream.length)), stream.length]),
        ].sort((a, b) => a - b);
        const quit = new AbortController();
        const found: unknown[] = [];
        const steps = follow({
          open: async () =>
            (async function* () {
              for (const [n, end] of places.slice(1).entries())
                yield stream.subarray(places[n], end);
            })(),
          read: ({ data }: StreamMessage) => JSON.parse(data) as string,
          signal: quit.signal,
          clock: createManualClock(),
          random: () => 1,
        });
        for await (const step of steps) {
          if (step.kind === "message") found.push(step.message);
          if (step.kind === "lost") quit.abort();
        }
        expect(found).toEqual(notes);
      },
    ),
    { numRuns: 100 },
  );
});

test("a sleep-aware timer runs out after its time, awake or asleep, and leaves no timer", async () => {
  const manual = createManualClock();
  let slept = 0;
  const clock: Clock = sleepAware({ now: () => manual.now() + slept, after: manual.after });
  let done = 0;
  const count = (): void => {
    done += 1;
  };
  clock.after(2_500, count);
  await manual.advance(2_499);
  expect(done).toBe(0);
  await manual.advance(1);
  expect(done).toBe(1);
  clock.after(3_600_000, count);
  slept += 3_599_500;
  await manual.advance(1_000);
  expect(done).toBe(2);
  clock.after(2_000, count);
  slept -= 7_200_000;
  await manual.advance(2_000);
  expect(done).toBe(3);
  const stop = new AbortController();
  const waiting = pause(clock, 60_000, stop.signal);
  await manual.advance(1_000);
  stop.abort();
  await expect(waiting).rejects.toThrow();
  clock.after(60_000, count)();
  expect([done, manual.pending()]).toEqual([3, 0]);
});
