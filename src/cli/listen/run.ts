import { follow, sleepAware } from "../../client/follow.ts";
import { opening } from "../../client/live.ts";
import { type Clock, pause } from "../../model/clock.ts";
import type { Io } from "../io.ts";
import { createForwarder, type Targets } from "./forward.ts";
import { connectListener, createCursor, type RelayAddress } from "./relay.ts";
import { createScreen, type ScreenParts } from "./screen.ts";
import { readListened } from "./wire.ts";

interface ListenRun extends Omit<ScreenParts, "io" | "now" | "isForwarding" | "url"> {
  readonly relay: RelayAddress;
  readonly targets: Targets | null;
  /** Query of `GET /v1/listen`, without the position. */
  readonly query: string;
  /** The name whose cursor the relay keeps; null: none. */
  readonly as: string | null;
  readonly maxAttempts: number | null;
  readonly clock: Clock;
  readonly random: () => number;
  readonly stop: AbortSignal;
}

/** Grace period at the end for a post in flight and for the last cursor update. */
const lastWordsMs = 2_000;

/**
 * Listens until `stop` is aborted. Throws when the relay permanently refuses the first connection.
 */
export async function runListen(io: Io, run: ListenRun): Promise<void> {
  const { relay, targets, query, as, random, maxAttempts, stop } = run;
  const clock = sleepAware(run.clock);
  const connection = connectListener(relay);
  const waitFor = (ms: number, signal: AbortSignal): Promise<void> =>
    pause(clock, ms, signal).catch(() => {});
  const over = new AbortController();

  const isForwarding = targets !== null;
  const screen = createScreen({ ...run, io, now: run.clock.now, isForwarding, url: relay.url });
  const forwarder = createForwarder({ targets, maxAttempts, clock, random, screen, quit: stop });
  const cursor =
    as === null
      ? null
      : createCursor({
          store: (seq) => connection.json("POST", `/v1/listen/cursors/${as}`, { seq }),
          wait: (ms) => waitFor(ms, over.signal),
          over: stop,
        });

  async function followRelay(): Promise<void> {
    let place = 0;
    const steps = follow({
      open: opening(connection, `/v1/listen${query}`),
      read: readListened,
      isPatient: true,
      signal: stop,
      clock: run.clock,
      random,
    });
    for await (const step of steps) {
      if (step.kind === "connecting") screen.connecting();
      if (step.kind === "lost") screen.lost(step.error, step.retryInMs);
      if (step.kind !== "message" || step.message === null) continue;
      const { kind, data } = step.message;
      if (kind === "hello") {
        place = data.reset ? data.after : Math.max(place, data.after);
        screen.hello(data, place);
      } else if (kind === "gap") screen.gap(data);
      else if (data.seq > place) {
        if (kind === "event") await forwarder.take(data);
        place = data.seq;
        cursor?.moved(place);
      }
    }
  }

  const following = followRelay().catch((error: unknown) => {
    if (!stop.aborted) throw error;
  });

  try {
    const ended = new Promise<void>((resolve) => {
      stop.addEventListener("abort", () => void waitFor(lastWordsMs, over.signal).then(resolve));
    });
    await Promise.race([following, ended]);
    if (cursor !== null) await Promise.race([cursor.flush(), waitFor(lastWordsMs, over.signal)]);
  } finally {
    over.abort();
    await targets?.close();
  }
}
