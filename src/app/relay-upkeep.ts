import type { Settings } from "../config/schema.ts";
import { stoppedDuring } from "../deliver/proxy.ts";
import type { Clock } from "../model/clock.ts";
import type { Health } from "../observe/health.ts";
import type { Logger } from "../observe/logger.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { Store } from "../store/port.ts";
import { startUpkeep } from "./upkeep.ts";

export interface RelayUpkeepParts {
  /** In force now. */
  readonly settings: () => Settings;
  readonly store: Store;
  readonly clock: Clock;
  readonly health: Health;
  readonly metrics: Metrics;
  readonly log: Logger;
}

/** The upkeep of the relay's store, by its settings. Returns the end of it. */
export function startRelayUpkeep({ settings, store, clock, health, metrics, log }: RelayUpkeepParts): () => void {
  return startUpkeep({
    clock,
    async releaseParked(limit) {
      const { released, due } = await store.releaseParked(clock.now(), limit);
      store.announce(due);
      return released;
    },
    expireParked: (limit) => store.expireParked(clock.now(), limit),
    async sweep(limit) {
      await store.forgetSends(clock.now() - settings().send.keepKeys, limit);
      return store.sweep(clock.now(), settings().retention, limit);
    },
    shortestKeep: () => Math.min(...Object.values(settings().retention)),
    probe: () => store.probe(clock.now()),
    storing: health.storing,
    isInPlace: store.isInPlace,
    duty: store.duty,
    // A relay that is alone on its store ended those of the one before it when it started.
    endLeftExchanges: store.isShared ? () => store.endLeftExchanges(clock.now(), stoppedDuring) : null,
    swept(swept) {
      for (const what of ["events", "deliveries", "messages"] as const) {
        if (swept[what] > 0) metrics.swept.inc({ what }, swept[what]);
      }
    },
    failed: (what, error) => log.error({ err: error }, `${what} failed; it will be tried again`),
  });
}
