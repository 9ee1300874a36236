import { expect, test } from "vitest";
import { followLive, type LiveMessage } from "../../../src/client/live.ts";
import type { Clock } from "../../../src/model/clock.ts";

type Attempt = readonly string[] | "silent";

const sse = (event: string, data: unknown, id?: number): string =>
  `event: ${event}\n${id === undefined ? "" : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`;

/**
 * Follows a relay that answers each connection with one of these; the signal is aborted when
 * another one is opened.
 */
function follow(attempts: readonly Attempt[]) {
  const headers: Readonly<Record<string, string>>[] = [];
  const end = new AbortController();
  /** Every wait is over once nothing else is left to do. */
  const clock: Clock = {
    now: () => 0,
    after(_ms, run) {
      const timer = setImmediate(run);
      return () => clearImmediate(timer);
    },
  };
  const connection = {
    async stream(_path: string, given: Readonly<Record<string, string>>, signal: AbortSignal) {
      const attempt = attempts[headers.length];
      if (attempt === undefined) end.abort();
      else headers.push(given);
      return new ReadableStream<Uint8Array>({
        start(controller) {
          signal.addEventListener("abort", () => controller.error(signal.reason));
          if (attempt === "silent") return;
          for (const text of attempt ?? []) controller.enqueue(new TextEncoder().encode(text));
          controller.close();
        },
      });
    },
  };
  return {
    messages: followLive({
      connection,
      path: "/v1/live",
      signal: end.signal,
      clock,
      random: () => 1,
    }),
    headers,
    end,
  };
}

const waitsOf = (messages: readonly LiveMessage[]) =>
  messages.flatMap((each) => (each.kind === "lost" ? [each.retryInMs] : []));
const kinds = (messages: readonly LiveMessage[]) => messages.map(({ kind }) => kind);

test("yields overviews and events, and continues after the last event when the connection breaks", async () => {
  const whole = sse("events", { data: [{ seq: 7 }], skipped: 3 }, 10);
  const { messages, headers } = follow([
    [sse("overview", { goodSince: null }), whole.slice(0, 12), whole.slice(12)],
    [sse("bye", { reason: "the relay is stopping" })],
    [sse("later kind", {})],
  ]);
  const found = await Array.fromAsync(messages);
  expect(kinds(found)).toEqual([
    "open",
    "overview",
    "events",
    "lost",
    "open",
    "lost",
    "open",
    "lost",
    "open",
  ]);
  expect(found[1]).toEqual({ kind: "overview", overview: { goodSince: null } });
  expect(found[2]).toEqual({ kind: "events", data: [{ seq: 7 }], skipped: 3 });
  expect((found[5] as { error: Error }).error.message).toBe(
    "the relay ended the stream: the relay is stopping",
  );
  expect(headers).toEqual([{}, { "last-event-id": "10" }, { "last-event-id": "10" }]);
  expect(waitsOf(found)).toEqual([500, 1_000, 500]);
});

test("ends without an error when its signal is aborted, even while it waits for a message", async () => {
  const { messages, end } = follow(["silent"]);
  expect((await messages.next()).value).toEqual({ kind: "open" });
  const next = messages.next();
  end.abort();
  expect(await next).toEqual({ value: undefined, done: true });
});
