import { setTimeout as sleep } from "node:timers/promises";
import type { RelayClient } from "../../client/relay-client.ts";
import type { Downstream } from "../../sandbox/downstream/downstream.ts";
import type { Io } from "../io.ts";
import { withCommas } from "../output.ts";
import { createDrawing } from "../progress.ts";
import type { PostLog } from "./checks.ts";
import { acceptedBy, type RelayStats } from "./relay.ts";

export interface Progress {
  /** `seconds` since the demo began; `downstream` in a word or two; `isLast` is shown in any case. */
  show(seconds: number, counts: DemoCounts, downstream: string, isLast?: boolean): void;
  /** A line that stays, above what is shown. */
  say(line: string): void;
}

/** A table that is drawn over itself on a terminal; one plain line a second in a pipe. */
export function createProgress(io: Io): Progress {
  return io.isTerminal ? createTable(io) : createLines(io);
}

const rows = [
  ["sent", "messages the service took from the client"],
  ["posted", "posts of events by the service"],
  ["accepted", "events stored, each once"],
  ["duplicate", "known event ids"],
  ["quarantined", "rightly signed, but no event"],
  ["refused", "wrongly signed"],
  ["delivered", "deliveries the downstream took"],
  ["retried", "attempts it refused; they come again"],
  ["waiting", "deliveries still pending"],
] as const;
/** The numbers shown. */
export type DemoCounts = Readonly<Record<(typeof rows)[number][0], number>>;

function createTable(io: Io): Progress {
  const drawing = createDrawing(io);
  return {
    show(seconds, counts, downstream) {
      const lines = rows.map(([name, meaning]) => `  ${name.padEnd(11)} ${withCommas(counts[name]).padStart(7)}  ${meaning}`);
      drawing.draw([`  ${`${seconds.toFixed(1)} s`.padStart(19)}  downstream ${downstream}`, ...lines].join("\n"));
    },
    say: drawing.print,
  };
}

function createLines(io: Io): Progress {
  let shown = -1;
  return {
    show(seconds, counts, downstream, isLast = false) {
      if (Math.floor(seconds) === shown && !isLast) return;
      shown = Math.floor(seconds);
      io.out(`${seconds.toFixed(1)}s ${rows.map(([name]) => `${name}=${counts[name]}`).join(" ")} downstream=${downstream}`);
    },
    say: (line) => io.out(line),
  };
}

const everyMs = 200;

/** Polls the relay's stats and shows them beside the counts of client and service. */
export function startWatch(options: {
  readonly client: Pick<RelayClient, "getStats">;
  readonly downstream: Downstream;
  readonly progress: Progress;
  /** Unix milliseconds of the first send. */
  readonly began: number;
  /** Messages that the service accepted so far. */
  readonly sent: () => number;
  readonly log: Pick<PostLog, "counts">;
  readonly signal: AbortSignal;
}) {
  const { client, downstream, progress, began, sent, log } = options;
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
      show(await client.getStats());
      await sleep(everyMs, undefined, { signal });
    }
  };
  // A failed poll is ignored: `settled`, or the end of the process, reports a dead relay.
  const looping = loop().catch(() => undefined);
  return {
    setDownstream(name: string): void {
      state = name;
    },
    counts,
    /** The relay's stats once nothing waits or is parked, or after `withinMs`. */
    async settled(withinMs: number): Promise<RelayStats> {
      watching.abort();
      await looping;
      for (const end = Date.now() + withinMs; ; await sleep(everyMs, undefined, { signal })) {
        const stats = await client.getStats();
        const isLast = stats.deliveries.waiting + stats.deliveries.held + stats.dispositions.parked === 0 || Date.now() > end;
        show(stats, isLast);
        // Deliveries that settled during this count may be missing from it.
        if (isLast) return await client.getStats();
      }
    },
    async stop(): Promise<void> {
      stopped.abort();
      await looping;
    },
  };
}
