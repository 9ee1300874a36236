import { setTimeout as wait } from "node:timers/promises";
import type { ControlClient } from "../control-client.ts";
import { readAnswer, replayedSchema } from "../control-views.ts";
import { CommandFailed } from "../io.ts";
import { expectDone } from "../reach-relay.ts";

export type Filter = Readonly<Record<string, unknown>>;

interface ReplayRun {
  readonly client: ControlClient;
  readonly filter: Filter;
  /** Where it goes on; null: from the beginning. */
  readonly cursor: string | null;
  /** Deliveries a second; null: as fast as it goes. */
  readonly rate: number | null;
  /** After each call: how many in this run, and where the next begins. */
  readonly moved: (replayed: number, cursor: string | null) => void;
  /** Aborted: it ends after the call under way. */
  readonly stop: AbortSignal;
}

/** Deliveries of one call: progress can be shown after each. */
const callLimit = 5_000;
/** With a rate, a call takes what is due in this time. */
const paceMs = 500;

/** Replays until all is done or it is stopped; gives how many went out again, and where to go on (null: nowhere). */
export async function runReplay(run: ReplayRun): Promise<{ readonly replayed: number; readonly cursor: string | null }> {
  const { client, filter, rate, moved, stop } = run;
  const limit = rate === null ? callLimit : Math.max(1, Math.min(callLimit, Math.round((rate * paceMs) / 1000)));
  const startedAt = performance.now();
  let replayed = 0;
  let { cursor } = run;
  for (;;) {
    const body: Filter = { ...filter, cursor, limit };
    const step = readAnswer(replayedSchema, expectDone(await client.request("POST", "/v1/replay", body)));
    replayed += step.replayed;
    // One that is stopping answers at once and does nothing.
    if (step.next !== null && step.next === cursor) throw new CommandFailed("the relay is stopping");
    cursor = step.next;
    moved(replayed, cursor);
    if (cursor === null || stop.aborted) return { replayed, cursor };
    const early = rate === null ? 0 : (replayed / rate) * 1000 - (performance.now() - startedAt);
    if (early > 0) await wait(early, null, { signal: stop }).catch(() => {});
    if (stop.aborted) return { replayed, cursor };
  }
}
