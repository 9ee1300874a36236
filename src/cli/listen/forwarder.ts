import type { Clock } from "../../event/clock.ts";
import type { PostOutcome, Targets } from "./targets.ts";
import { backoffMs, waitFor } from "./waiting.ts";
import type { ListenedEvent } from "./wire.ts";

interface ForwarderParts {
  /** Null: events are only shown. */
  readonly targets: Targets | null;
  /** After so many answers that are no 2xx an event is passed over; null: never. A server that is down is waited for. */
  readonly tries: number | null;
  readonly clock: Clock;
  readonly random: () => number;
  onEvent(event: ListenedEvent, url: string | null): void;
  /** `again`: it will be posted again; not told of failures that are the same as the one before. */
  onAnswer(event: ListenedEvent, url: string, outcome: PostOutcome, more: { readonly again: boolean; readonly replay: boolean }): void;
  onSkipped(event: ListenedEvent): void;
  readonly quit: AbortSignal;
}

interface Forwarder {
  /** Resolves once somebody on this machine has taken it, or it was passed over; rejects when the command ends before. */
  take(event: ListenedEvent): Promise<void>;
  /** The last event once more, or at once the one that is waited with. */
  replay(): void;
  /** Passes over the event that is waited with; false when none is. */
  skip(): boolean;
  pause(): boolean;
  readonly isPaused: () => boolean;
  /** Failed posts of the event that is waited with. */
  readonly failures: () => number;
}

/** Local servers are started again all the time, and are wanted back at once. */
const retry = { firstMs: 500, longestMs: 5_000 };

/** One event at a time, in order: the next goes out when this one was taken. */
export function createForwarder(parts: ForwarderParts): Forwarder {
  const { targets, clock, random, quit } = parts;
  let last: { event: ListenedEvent; url: string } | null = null;
  let paused: PromiseWithResolvers<void> | null = null;
  let failures = 0;
  let waiting: AbortController | null = null;
  let skipped = false;
  let isPosting = false;
  quit.addEventListener("abort", () => {
    paused?.resolve();
    // What the local server is just taking may still be taken.
    if (!isPosting) waiting?.abort();
  });

  /** Posts until it is taken; gives false when it is to be passed over. */
  async function deliver(event: ListenedEvent, url: string, to: Targets): Promise<boolean> {
    let shown = "";
    let refusals = 0;
    failures = 0;
    skipped = false;
    for (;;) {
      await paused?.promise;
      if (quit.aborted) throw new Error("the command ends");
      waiting = new AbortController();
      isPosting = true;
      const outcome = await to.post(url, event, failures + 1, false, waiting.signal);
      isPosting = false;
      if (outcome.taken) {
        failures = 0;
        parts.onAnswer(event, url, outcome, { again: false, replay: false });
        return true;
      }
      failures += 1;
      if (outcome.status !== null) refusals += 1;
      const isLast = skipped || (parts.tries !== null && refusals >= parts.tries);
      const failure = `${outcome.status} ${outcome.error}`;
      if ((failure !== shown || isLast) && !quit.aborted) parts.onAnswer(event, url, outcome, { again: !isLast, replay: false });
      shown = failure;
      if (isLast) return false;
      if (quit.aborted) continue;
      waiting = new AbortController();
      await waitFor(clock, backoffMs(failures - 1, random, retry.firstMs, retry.longestMs), waiting.signal);
      if (skipped) return false;
    }
  }

  return {
    async take(event) {
      await paused?.promise;
      if (quit.aborted) throw new Error("the command ends");
      const url = targets?.urlOf(event.source) ?? null;
      parts.onEvent(event, url);
      if (targets === null || url === null) return;
      last = { event, url };
      try {
        if (!(await deliver(event, url, targets))) parts.onSkipped(event);
      } finally {
        waiting = null;
        failures = 0;
      }
    },
    replay() {
      if (waiting !== null) {
        if (!isPosting) waiting.abort();
        return;
      }
      if (last === null || targets === null) return;
      const { event, url } = last;
      void targets.post(url, event, 1, true, quit).then((outcome) => {
        if (!quit.aborted) parts.onAnswer(event, url, outcome, { again: false, replay: true });
      });
    },
    skip() {
      if (waiting === null || failures === 0) return false;
      skipped = true;
      waiting.abort();
      return true;
    },
    pause() {
      if (paused === null) paused = Promise.withResolvers();
      else {
        paused.resolve();
        paused = null;
      }
      return paused !== null;
    },
    isPaused: () => paused !== null,
    failures: () => failures,
  };
}
