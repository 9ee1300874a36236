import { StoreUnavailable } from "../port.ts";
import type { Inspecting, Stats } from "../reading.ts";
import { runAudit } from "./audit.ts";
import type { RedisLink } from "./client.ts";
import { createStoredEvents } from "./event-rows.ts";
import { createReadHydrations } from "./hydrations.ts";
import type { Keys } from "./keys.ts";
import { createLiveSeqs } from "./live-seqs.ts";
import { createReadDeliveries } from "./read-deliveries.ts";
import { createReadEvents } from "./read-events.ts";
import { createHistoryCounts, createReadHistory } from "./read-history.ts";
import { createReadListen } from "./read-listen.ts";
import { createReadMessages, createReadRuns, createReadSubjects } from "./read-messages.ts";
import { createCountStats, createReadBacklog, createReadQuarantine, createReadUsage } from "./read-stats.ts";
import { createReadStories, createReadUnplanned, createReadWaiting } from "./read-stories.ts";
import { readDataId } from "./schema.ts";

/** All reads of the store. Call `changed` when this process changes stored data other than by accepting. */
export function createReader(keys: Keys, link: RedisLink) {
  const live = createLiveSeqs(keys, link);
  const events = createStoredEvents(keys, link);
  const subjects = createReadSubjects(keys, link);
  const parts = { keys, link, live, events };
  const waiting = createReadWaiting(keys, link);
  const countStats = createCountStats(parts);
  let counting: Promise<Stats> | null = null;

  const listen = createReadListen(parts);
  const history = createReadHistory({ ...parts, seqBefore: listen.seqBefore });
  const read = {
    events: createReadEvents({ ...parts, waiting, hydrationOf: createReadHydrations(keys, link, events) }),
    deliveries: createReadDeliveries(parts),
    messages: createReadMessages(subjects),
    runs: createReadRuns(subjects),
    stories: createReadStories(keys, link, waiting),
    listen,
    history: { lastHour: history.lastHour },
    secretUses: createReadUsage(keys, link),
    dataId: () => link.run((redis) => readDataId(redis, keys)),
    backlog: createReadBacklog(keys, link),
    unplanned: createReadUnplanned(keys, link),
    quarantine: createReadQuarantine(keys, link),
  };

  /** Counts every row; concurrent callers share one count. */
  function stats(): Promise<Stats> {
    counting ??= countStats().finally(() => {
      counting = null;
    });
    return counting;
  }

  const closing = new AbortController();
  const auditParts = { ...parts, secretUses: read.secretUses, historyCounts: createHistoryCounts(keys, link), seqBefore: listen.seqBefore };
  const inspecting: Inspecting = {
    stats,
    series: history.series,
    quality: (query) => history.quality(query, closing.signal),
    /** Runs in this process, a few hundred rows at a time, so that other work gets through in between. */
    audit: (order, progress) => runAudit(auditParts, order, progress, closing.signal),
    async close() {
      closing.abort(new StoreUnavailable("the store is closed"));
    },
  };
  return { read, inspecting, changed: listen.forget, live, events };
}
