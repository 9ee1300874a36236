import type { RelayEvent } from "../model/answers.ts";
import { growingWait, withJitter } from "../model/backoff.ts";
import { type Clock, pause } from "../model/clock.ts";
import type { RelayOverview } from "../model/overview.ts";
import { type Connection, RelayClientError } from "./connection.ts";

/** One step of `live`, in the order in which they happen. */
export type LiveMessage =
  /** The connection is open: what follows is current. */
  | { readonly kind: "open" }
  | { readonly kind: "overview"; readonly overview: RelayOverview }
  /** Stored since the last one, oldest first. `skipped`: number of events that the stream leaves out, because there are too many. */
  | { readonly kind: "events"; readonly data: readonly RelayEvent[]; readonly skipped: number }
  /** The connection broke. The next attempt follows by itself after `retryInMs`. */
  | { readonly kind: "lost"; readonly error: RelayClientError; readonly retryInMs: number };

/** The relay sends something every 15 s. After three times that without a byte the connection counts as dead. */
const silenceMs = 45_000;
/** Wait before the connection is opened again; doubled after each failure in a row. */
const firstWaitMs = 500;
const longestWaitMs = 15_000;
/** Longest `Retry-After` that is honored. A proxy before the relay may send any. */
const longestRetryAfterMs = 60_000;

interface LiveParts {
  readonly connection: Pick<Connection, "stream">;
  /** With its query. */
  readonly path: string;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly random: () => number;
}

/**
 * Follows `GET /v1/live` over broken connections, each continued after the last event of the one before. Ends when `signal`
 * is aborted. Throws the relay's refusal when another attempt would not help, such as 401 after the session ended.
 */
export async function* followLive({ connection, path, signal, clock, random }: LiveParts): AsyncGenerator<LiveMessage, void> {
  let lastEventId: string | null = null;
  let failures = 0;
  while (!signal.aborted) {
    const cut = new AbortController();
    let error: RelayClientError;
    try {
      const headers = lastEventId === null ? {} : { "last-event-id": lastEventId };
      const bytes = await connection.stream(path, headers, AbortSignal.any([signal, cut.signal]));
      yield { kind: "open" };
      for await (const { event = "", data, id } of messagesOf(bytes, clock, () => cut.abort())) {
        if (id !== undefined) lastEventId = id;
        if (event === "bye") throw lost(`the relay ended the stream: ${(JSON.parse(data) as { reason?: string }).reason}`);
        if (event === "overview") yield { kind: "overview", overview: JSON.parse(data) as RelayOverview };
        if (event === "events") yield { kind: "events", ...(JSON.parse(data) as { data: RelayEvent[]; skipped: number }) };
        failures = 0;
      }
      error = lost("the connection was closed");
    } catch (thrown) {
      error =
        thrown instanceof RelayClientError
          ? thrown
          : lost(cut.signal.aborted ? `no data came for ${silenceMs / 1000} s` : String(thrown), thrown);
    } finally {
      cut.abort();
    }
    if (signal.aborted) return;
    if (isLasting(error)) throw error;
    failures += 1;
    const backoff = withJitter(growingWait(failures, firstWaitMs, longestWaitMs), random());
    const retryInMs = Math.max(backoff, Math.min(error.retryAfterMs ?? 0, longestRetryAfterMs));
    yield { kind: "lost", error, retryInMs };
    await pause(clock, retryInMs, signal).catch(() => {});
  }
}

function lost(message: string, cause?: unknown): RelayClientError {
  return new RelayClientError(message, { status: 0, code: "no_answer", cause });
}

/** A relay that starts or stops, or a proxy before it, answers 5xx; 408 and 429 pass by themselves. */
function isLasting({ status }: RelayClientError): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 429;
}

interface StreamMessage {
  readonly event?: string | undefined;
  readonly id?: string | undefined;
  readonly data: string;
}

/** The messages of a stream of server-sent events. Calls `silent`, which must end the stream, when no byte comes for too long. */
async function* messagesOf(bytes: ReadableStream<Uint8Array>, clock: Clock, silent: () => void): AsyncGenerator<StreamMessage, void> {
  // Loaded on demand: an ES module, which a CommonJS program on an older Node 20 cannot require.
  const { createParser } = await import("eventsource-parser");
  const complete: StreamMessage[] = [];
  const parser = createParser({ onEvent: (message) => complete.push(message) });
  const decoder = new TextDecoder();
  const reader = bytes.getReader();
  try {
    for (;;) {
      const stopWaiting = clock.after(silenceMs, silent);
      const { done, value } = await reader.read().finally(stopWaiting);
      if (done) return;
      parser.feed(decoder.decode(value, { stream: true }));
      yield* complete.splice(0);
    }
  } finally {
    reader.releaseLock();
  }
}
