import { setTimeout as sleep } from "node:timers/promises";
import type { Downstream } from "../../sandbox/downstream/downstream.ts";
import type { PostLog } from "./post-log.ts";
import type { DemoCounts, Progress } from "./progress.ts";
import { acceptedBy, type RelayApi, type RelayStats } from "./relay-api.ts";

const everyMs = 200;

interface Watch {
  setDownstream(state: string): void;
  /** The relay's stats once nothing waits or is parked; after `withinMs`, as they then are. */
  settled(withinMs: number): Promise<RelayStats>;
  counts(stats: RelayStats): DemoCounts;
  stop(): Promise<void>;
}

/** Asks the relay for its stats a few times a second and shows them beside what client and service counted. */
export function startWatch(options: {
  readonly api: RelayApi;
  readonly downstream: Downstream;
  readonly progress: Progress;
  /** Unix milliseconds of the first send. */
  readonly began: number;
  /** Messages that the service took so far. */
  readonly sent: () => number;
  readonly log: Pick<PostLog, "counts">;
  readonly signal: AbortSignal;
}): Watch {
  const { api, downstream, progress, began, sent, log } = options;
  const stopped = new AbortController();
  const signal = AbortSignal.any([options.signal, stopped.signal]);
  let state = "is well";
  const counts = ({ dispositions, duplicates, deliveries }: RelayStats): DemoCounts => ({
    sent: sent(),
    posted: log.counts.posts,
    accepted: acceptedBy(dispositions),
    duplicate: duplicates,
    quarantined: dispositions.quarantined,
    refused: log.counts.refused,
    delivered: deliveries.delivered,
    retried: downstream.counts().failed,
    waiting: deliveries.waiting + deliveries.held,
  });
  const show = (stats: RelayStats, isLast = false) => progress.show((Date.now() - began) / 1000, counts(stats), state, isLast);
  const watching = new AbortController();
  const loop = async () => {
    while (!watching.signal.aborted && !signal.aborted) {
      show(await api.stats(signal));
      await sleep(everyMs, undefined, { signal });
    }
  };
  // A relay that does not answer is noticed by `settled` or by the end of its process; a look missed is none of either.
  const looping = loop().catch(() => undefined);
  return {
    setDownstream(name) {
      state = name;
    },
    counts,
    async settled(withinMs) {
      watching.abort();
      await looping;
      for (const end = Date.now() + withinMs; ; await sleep(everyMs, undefined, { signal })) {
        const stats = await api.stats(signal);
        const isLast = stats.deliveries.waiting + stats.deliveries.held + stats.dispositions.parked === 0 || Date.now() > end;
        show(stats, isLast);
        if (isLast) return stats;
      }
    },
    async stop() {
      stopped.abort();
      await looping;
    },
  };
}
