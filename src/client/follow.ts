import { type Clock, growingWait, pause, withJitter } from "../model/clock.ts";
import { RelayClientError } from "./connection.ts";

/**
 * The relay sends something every 15 s. After three times that without a byte the connection counts
 * as dead.
 */
const silenceMs = 45_000;
/**
 * Wait before the connection is opened again; doubled after each failure in a row, up to
 * `longestWaitMs`.
 */
const firstWaitMs = 500;
/** Longest `Retry-After` that is honored. A proxy before the relay may send any. */
const longestRetryAfterMs = 60_000;
/** An event's body is at most 64 MiB (`server.bodyLimit`), a third more as base64. */
const longestMessage = 100 * 1024 * 1024;

export interface StreamMessage {
  readonly event?: string | undefined;
  readonly id?: string | undefined;
  readonly data: string;
}

/** One step of a stream, in the order in which they happen. */
export type Step<T> =
  | { readonly kind: "connecting" }
  /** What follows is current. */
  | { readonly kind: "open" }
  | { readonly kind: "message"; readonly message: T }
  /** The connection broke. The next attempt follows by itself after `retryInMs`. */
  | { readonly kind: "lost"; readonly error: RelayClientError; readonly retryInMs: number };

export interface FollowParts<T> {
  /** Opens the stream after the message with this id; null: from where the relay starts it. */
  open(lastEventId: string | null, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>;
  /** Parses a message. What it throws breaks the connection. */
  read(message: StreamMessage): T;
  /** Once a stream was open, waits whatever the relay answers: tokens may change back. */
  readonly isPatient?: boolean;
  /** Between two attempts, unless the relay asks for more. Default: 30 s. */
  readonly longestWaitMs?: number | undefined;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly random: () => number;
}

/**
 * Follows a stream of server-sent events over broken connections, each continued after the last
 * message that the caller is done with. Reads no further while the caller is busy. Ends when
 * `signal` is aborted. Throws the relay's refusal when another attempt would not help, such as 401
 * after the session ended.
 */
export async function* follow<T>(parts: FollowParts<T>): AsyncGenerator<Step<T>, void> {
  const { open, read, isPatient = false, longestWaitMs = 30_000, signal, random } = parts;
  const clock = sleepAware(parts.clock);
  let lastEventId: string | null = null;
  let wasOpen = false;
  let failures = 0;
  while (!signal.aborted) {
    yield { kind: "connecting" };
    const cut = new AbortController();
    let error = lost("the connection was closed");
    try {
      const bytes = await open(lastEventId, AbortSignal.any([signal, cut.signal]));
      yield { kind: "open" };
      for await (const message of messagesOf(bytes, clock, () => cut.abort())) {
        const parsed = read(message);
        wasOpen = true;
        failures = 0;
        yield { kind: "message", message: parsed };
        if (message.id !== undefined) lastEventId = message.id;
      }
    } catch (thrown) {
      if (cut.signal.aborted) error = lost(`no data came for ${silenceMs / 1000} s`);
      else
        error = thrown instanceof RelayClientError ? thrown : lost("the connection broke", thrown);
    } finally {
      cut.abort();
    }
    if (signal.aborted) return;
    if (isLasting(error) && !(isPatient && wasOpen)) throw error;
    failures += 1;
    const backoff = withJitter(growingWait(failures, firstWaitMs, longestWaitMs), random());
    const retryInMs = Math.max(backoff, Math.min(error.retryAfterMs ?? 0, longestRetryAfterMs));
    yield { kind: "lost", error, retryInMs };
    await pause(clock, retryInMs, signal).catch(() => {});
  }
}

export function lost(message: string, cause?: unknown): RelayClientError {
  return new RelayClientError(message, { status: 0, code: "no_answer", cause });
}

/**
 * A relay that starts or stops, or a proxy before it, answers 5xx; 408 and 429 pass by themselves.
 */
function isLasting({ status }: RelayClientError): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 429;
}

/** The messages of a stream. Calls `silent`, which must end it, when no byte comes for too long. */
async function* messagesOf(
  bytes: AsyncIterable<Uint8Array>,
  clock: Clock,
  silent: () => void,
): AsyncGenerator<StreamMessage, void> {
  // Loaded on demand: an ES module, which a CommonJS program on an older Node 20 cannot require.
  const { createParser } = await import("eventsource-parser");
  const complete: StreamMessage[] = [];
  const parser = createParser({
    maxBufferSize: longestMessage,
    onEvent: (message) => complete.push(message),
    onError({ type }) {
      if (type === "max-buffer-size-exceeded") throw lost("a message of the stream is too long");
    },
  });
  const decoder = new TextDecoder();
  const chunks = bytes[Symbol.asyncIterator]();
  try {
    for (;;) {
      const stopWaiting = clock.after(silenceMs, silent);
      const { done, value } = await chunks.next().finally(stopWaiting);
      if (done === true) return;
      parser.feed(decoder.decode(value, { stream: true }));
      yield* complete.splice(0);
    }
  } finally {
    // Not awaited: a stream that is waiting for more would block the caller.
    Promise.resolve(chunks.return?.()).catch(() => {});
  }
}

/** Timers stop while a machine sleeps, and the wall clock does not. */
const tickMs = 1_000;

/**
 * The same clock, whose timers run out after their time awake or asleep. When the clock is set
 * back, they do not take longer.
 */
export function sleepAware(clock: Clock): Clock {
  return {
    now: clock.now,
    after(ms, run) {
      let cancel = () => {};
      const tick = (left: number): void => {
        const step = Math.min(tickMs, left);
        const before = clock.now();
        cancel = clock.after(step, () => {
          const rest = left - Math.max(step, clock.now() - before);
          if (rest > 0) tick(rest);
          else run();
        });
      };
      tick(ms);
      return () => cancel();
    },
  };
}
