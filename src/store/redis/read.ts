import { StoreUnavailable } from "../port.ts";
import type { Inspecting, Stats, StoreReading } from "../reading.ts";
import type { HydrationView } from "../views.ts";
import { type AuditParts, runAudit } from "./audit/run-audit.ts";
import type { RedisLink } from "./client.ts";
import type { Keys } from "./keys.ts";
import { createReadDeliveries } from "./read-deliveries.ts";
import { createReadEvents } from "./read-events.ts";
import { createReadListen } from "./read-listen.ts";
import { createReadMessages, createReadRuns, createReadSubjects } from "./read-messages.ts";
import { createCountStats, createReadBacklog, createReadProofs } from "./read-stats.ts";
import { createReadStories, createReadUnplanned, createReadWaiting } from "./read-stories.ts";
import { createLiveSeqs, createStoredEvents } from "./stored-events.ts";

interface Reader {
  readonly read: StoreReading;
  readonly inspecting: Inspecting;
  /** This process changed stored data other than by accepting: drops what was read for listeners. */
  changed(): void;
  /** The greatest seq ever assigned. */
  lastSeq(): Promise<number>;
}

/** All reads of the store. `hydrationOf`: the hydration of a truncated event; null for other events. */
export function createReader(keys: Keys, link: RedisLink, hydrationOf: (seq: number) => Promise<HydrationView | null>): Reader {
  const live = createLiveSeqs(keys, link);
  const events = createStoredEvents(keys, link);
  const subjects = createReadSubjects(keys, link);
  const parts = { keys, link, live, events };
  const waiting = createReadWaiting(keys, link);
  const countStats = createCountStats(parts);
  let counting: Promise<Stats> | null = null;

  const listen = createReadListen(parts);
  const read = {
    events: createReadEvents({ ...parts, waiting, hydrationOf }),
    deliveries: createReadDeliveries(parts),
    messages: createReadMessages(subjects),
    runs: createReadRuns(subjects),
    stories: createReadStories(keys, link, waiting),
    listen,
    proofs: createReadProofs(keys, link),
    backlog: createReadBacklog(keys, link),
    unplanned: createReadUnplanned(keys, link),
  };

  /** Counts every row; concurrent callers share one count. */
  function stats(): Promise<Stats> {
    counting ??= countStats().finally(() => {
      counting = null;
    });
    return counting;
  }

  const inspecting = createInspecting({ ...parts, proofs: read.proofs, seqBefore: read.listen.seqBefore }, stats);
  return { read, inspecting, changed: listen.forget, lastSeq: live.last };
}

/** Audits from this process, a few hundred rows at a time, so that other work gets through in between. */
function createInspecting(parts: AuditParts, stats: () => Promise<Stats>): Inspecting {
  const ending = new AbortController();
  return {
    stats,
    audit: (order, progress) => runAudit(parts, order, progress, ending.signal),
    async close() {
      ending.abort(new StoreUnavailable("the store is closed"));
    },
  };
}
