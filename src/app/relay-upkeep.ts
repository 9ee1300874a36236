import type { Settings } from "../config/schema.ts";
import type { Clock } from "../event/clock.ts";
import type { Health } from "../observe/health.ts";
import type { Logger } from "../observe/logger.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { SqliteStore } from "../store/sqlite/sqlite-store.ts";
import { startUpkeep } from "./upkeep.ts";

export interface RelayUpkeepParts {
  /** In force now. */
  readonly settings: () => Settings;
  readonly store: SqliteStore;
  readonly clock: Clock;
  readonly health: Health;
  readonly metrics: Metrics;
  readonly log: Logger;
}

/** The upkeep of the relay's store, by its settings. Returns the end of it. */
export function startRelayUpkeep({ settings, store, clock, health, metrics, log }: RelayUpkeepParts): () => void {
  return startUpkeep({
    clock,
    expireParked: (limit) => store.expireParked(clock.now(), limit),
    async sweep(limit) {
      await store.forgetSends(clock.now() - settings().send.keepKeys, limit);
      return store.sweep(clock.now(), settings().retention, limit);
    },
    shortestKeep: () => Math.min(...Object.values(settings().retention)),
    probe: () => store.probe(clock.now()),
    storing: health.storing,
    fileInPlace: store.fileInPlace,
    swept(swept) {
      for (const what of ["events", "deliveries", "messages"] as const) {
        if (swept[what] > 0) metrics.swept.inc({ what }, swept[what]);
      }
    },
    failed: (what, error) => log.error({ err: error }, `${what} failed; it will be tried again`),
  });
}
