import { growingWait, withJitter } from "../../model/backoff.ts";
import type { Clock } from "../../model/clock.ts";
import { CommandFailed } from "../io.ts";
import { createStreamReader, type Gap, type Hello, type ListenedEvent, type Place } from "./wire.ts";

/** A relay sends something every 15 s. After three times that without data the connection counts as dead. */
const silenceMs = 45_000;
/** A connection that lasted this long, or delivered something, resets the backoff. */
const goodAfterMs = 10_000;

/** Wait before the connection is opened again; doubled after each failure. */
const firstWaitMs = 500;
const longestWaitMs = 30_000;

/** Longest `Retry-After` that is honored. A proxy in front of the relay may send any. */
const longestRetryAfterMs = 300_000;

export type StreamState =
  | { readonly is: "connecting" }
  | { readonly is: "live" }
  | { readonly is: "waiting"; readonly why: string; readonly ms: number };

export type Opened =
  | { readonly ok: true; readonly body: AsyncIterable<Uint8Array>; close(): void }
  /** `lasting`: trying again will not help by itself. */
  | { readonly ok: false; readonly why: string; readonly retryAfterMs: number | null; readonly lasting: boolean };

export interface FollowParts {
  /** Opens the stream after this event; null: where the relay starts it. Rejects when no answer comes. */
  open(after: number | null, signal: AbortSignal): Promise<Opened>;
  /** Resolves once the event is done with; while it does not, nothing more is read. Rejects when it was given up. */
  take(event: ListenedEvent): Promise<void>;
  onHello(hello: Hello): void;
  onGap(gap: Gap): void;
  /** Everything up to `seq` is done with, or not wanted. */
  onPlace(place: Place): void;
  onState(state: StreamState): void;
  readonly clock: Clock;
  readonly random: () => number;
}

interface Ended {
  readonly why: string;
  readonly good: boolean;
  readonly retryAfterMs?: number | null;
  readonly lasting?: boolean;
}

/**
 * Keeps a stream of events going, one event after the other, over whatever happens to connections, until `signal` is aborted.
 * Rejects with {@link CommandFailed} when the first connection is refused for good.
 */
export async function follow(parts: FollowParts, signal: AbortSignal): Promise<void> {
  const { clock, random } = parts;
  let position: number | null = null;
  let announced = 0;
  let wasLive = false;

  async function once(): Promise<Ended> {
    const startedAt = clock.now();
    let brought = false;
    let isSilent = false;
    const cut = new AbortController();
    const watchdog = startWatchdog(clock, silenceMs, () => {
      isSilent = true;
      cut.abort();
    });
    const ended = (why: string): Ended => ({ why, good: brought || clock.now() - startedAt >= goodAfterMs });
    let opened: Opened | null = null;
    try {
      opened = await parts.open(position, AbortSignal.any([signal, cut.signal]));
      if (!opened.ok) return { ...opened, good: false };
      const read = createStreamReader();
      let greeted = false;
      for await (const chunk of opened.body) {
        watchdog.suspend();
        for (const parsed of read(chunk)) {
          if (signal.aborted) return ended("");
          if (parsed.kind === "bye") return ended(parsed.reason);
          if (parsed.kind === "hello") {
            greeted = true;
            wasLive = true;
            if (position === null || parsed.reset) position = parsed.after;
            parts.onHello(parsed);
            parts.onState({ is: "live" });
          } else if (!greeted) throw new Error("the stream is not that of a wamid-relay");
          else if (parsed.kind === "event" && parsed.event.seq > (position ?? 0)) {
            await parts.take(parsed.event);
            position = parsed.event.seq;
            brought = true;
          } else if (parsed.kind === "gap" && parsed.to > announced) {
            announced = parsed.to;
            parts.onGap(parsed);
          } else if (parsed.kind === "at") {
            position = Math.max(position ?? 0, parsed.seq);
            brought = true;
            parts.onPlace(parsed);
          }
        }
        watchdog.reset();
      }
      return ended("the connection was closed");
    } catch (error) {
      return ended(isSilent ? `no data came for ${silenceMs / 1000} s` : errorText(error));
    } finally {
      watchdog.end();
      if (opened?.ok === true) opened.close();
    }
  }

  let failures = 0;
  while (!signal.aborted) {
    parts.onState({ is: "connecting" });
    const ended = await once();
    if (signal.aborted) return;
    if (ended.lasting === true && !wasLive) throw new CommandFailed(ended.why);
    failures = ended.good ? 0 : failures + 1;
    const ms = Math.max(
      Math.min(ended.retryAfterMs ?? 0, longestRetryAfterMs),
      withJitter(growingWait(Math.max(1, failures), firstWaitMs, longestWaitMs), random()),
    );
    parts.onState({ is: "waiting", why: ended.why, ms });
    await waitFor(clock, ms, signal);
  }
}

function errorText(error: unknown): string {
  const { code, message } = error as { code?: unknown; message?: unknown };
  const known: Readonly<Record<string, string>> = {
    ECONNREFUSED: "nothing listens there",
    ECONNRESET: "the connection was reset",
    UND_ERR_SOCKET: "the connection was closed",
    UND_ERR_HEADERS_TIMEOUT: "no answer came",
    UND_ERR_CONNECT_TIMEOUT: "no connection came about",
    ENOTFOUND: "its name is not known",
    EAI_AGAIN: "its name cannot be looked up now",
  };
  return (typeof code === "string" ? known[code] : undefined) ?? String(message ?? error);
}

/** Clock check interval: timers stop while a laptop sleeps, the wall clock does not. */
const tickMs = 1_000;

/**
 * Time that has passed since `clock.now()` was `before`, when a timer of `least` ms has run out: more after sleep, and not
 * less when the clock was set back.
 */
function passed(clock: Clock, before: number, least: number): number {
  return Math.max(least, clock.now() - before);
}

/** Waits until so much time has passed, awake or asleep, or until the signal is aborted. Never rejects. */
export function waitFor(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    let cancel = (): void => {};
    const end = (): void => {
      cancel();
      signal.removeEventListener("abort", end);
      resolve();
    };
    const tick = (left: number): void => {
      if (left <= 0 || signal.aborted) {
        end();
        return;
      }
      const step = Math.min(tickMs, left);
      const before = clock.now();
      cancel = clock.after(step, () => tick(left - passed(clock, before, step)));
    };
    signal.addEventListener("abort", end);
    tick(ms);
  });
}

/** Calls `silent` once after `limitMs` without data, asleep or awake. */
export function startWatchdog(clock: Clock, limitMs: number, silent: () => void) {
  let silence: number | null = 0;
  let cancel = (): void => {};
  const tick = (): void => {
    const before = clock.now();
    cancel = clock.after(tickMs, () => {
      if (silence !== null) silence += passed(clock, before, tickMs);
      if (silence !== null && silence >= limitMs) silent();
      else tick();
    });
  };
  tick();
  return {
    /** Data arrived: the silence restarts at 0. */
    reset(): void {
      silence = 0;
    },
    /** Stops counting while the consumer is busy. */
    suspend(): void {
      silence = null;
    },
    end: () => cancel(),
  };
}
