import { audit } from "../audit/audit.ts";
import { stats } from "../audit/stats.ts";
import { StoreUnavailable } from "../port.ts";
import { readSeries } from "../read/history.ts";
import { readQuality } from "../read/quality.ts";
import { createReading } from "../read/reading.ts";
import type { Inspecting } from "../reading.ts";
import type { Work } from "../sql/ops.ts";
import type { PostgresSettings } from "./connect.ts";
import { createHorizon } from "./horizon.ts";
import { createReads, createSessions, type SessionHooks } from "./sessions.ts";

/** Connections for lists and other long reads. */
const mostFree = 4;

/** The reads of the port: of single rows over a connection of their own, and lists over some whose plans follow the data. */
export function createReader(settings: PostgresSettings, hooks: SessionHooks) {
  const single = createReads(settings, hooks);
  const free = createSessions(settings, { most: mostFree, purpose: "free", hooks });
  const horizon = createSharedHorizon(single.read);
  const closing = new AbortController();

  /** What its end makes of a long read: the client that waits for it gets an answer at once. */
  function untilClosed<T>(reading: Promise<T>): Promise<T> {
    const { promise, reject } = Promise.withResolvers<never>();
    const end = (): void => reject(new StoreUnavailable("the relay is stopping"));
    if (closing.signal.aborted) end();
    closing.signal.addEventListener("abort", end, { once: true });
    return Promise.race([reading, promise]).finally(() => closing.signal.removeEventListener("abort", end));
  }

  const inspecting: Inspecting = {
    stats: () => untilClosed(free.read(stats())),
    series: (query) => untilClosed(free.read(readSeries(query))),
    quality: (query) => untilClosed(free.read(readQuality(query))),
    audit: (order, progress) => untilClosed(free.readSnapshot(audit(order, progress))),
    async close() {
      closing.abort();
    },
  };

  return {
    single: single.read,
    free: free.read,
    read: { ...createReading({ read: single.read, until: horizon.look }), isAside: () => true },
    browse: { ...createReading({ read: free.read, until: horizon.look }), isAside: () => true },
    inspecting,
    horizon,
    giveUp(): void {
      single.giveUp();
      free.giveUp();
    },
    async close(): Promise<void> {
      await inspecting.close();
      await Promise.all([single.close(), free.close()]);
    },
  };
}

/** Looks of one horizon, one after the other. Those that are asked for during one share the next. */
function createSharedHorizon(read: <T>(work: Work<T>) => Promise<T>) {
  const horizon = createHorizon();
  let running: Promise<unknown> = Promise.resolve();
  let next: Promise<number> | null = null;
  let known = 0;
  return {
    /** As of the last look. */
    known: () => known,
    /** The seq up to which no event appears any more. */
    look(): Promise<number> {
      if (next !== null) return next;
      const begun = running
        .catch(() => {})
        .then(async () => {
          next = null;
          known = await read(horizon.look());
          return known;
        });
      next = begun;
      running = begun;
      return begun;
    },
  };
}
