import type { Settings } from "../config/schema.ts";
import { createCount } from "../inspect/count.ts";
import type { Clock } from "../model/clock.ts";
import { createArrivals } from "../receive/arrivals.ts";
import { createAccepting } from "./accept.ts";
import type { Cleanup } from "./cleanup.ts";
import type { OpenOptions } from "./engine.ts";
import { planningFailed, storeHooks } from "./hooks.ts";
import type { Observed } from "./observe.ts";
import { openStore } from "./open-store.ts";
import { createRules } from "./rules.ts";
import { createSupervisor } from "./supervise.ts";

export type Stored = Awaited<ReturnType<typeof startStore>>;

/** What works in the background needs. */
export interface Background extends Pick<Observed, "log" | "privacy" | "metrics">, Pick<Stored, "store" | "clock" | "supervise"> {
  readonly settings: () => Settings;
}

/** The second phase: the store with the rules that it runs, its clock, background tasks, and the entry for events. */
export async function startStore(observed: Observed, role: OpenOptions["role"], given: Clock | undefined, cleanup: Cleanup) {
  const { live, instance, log, privacy, metrics, health, tracing } = observed;
  const rules = createRules(live.initial, (error, event) => planningFailed(observed, error, event));
  live.follow(rules.reload);
  const arrivals = createArrivals();
  const engine = await openStore(live.initial.storage, {
    role,
    instance: instance.instance,
    rules,
    hooks: storeHooks(observed, arrivals.expected),
    clock: given,
  });
  const { store, clock } = engine;
  cleanup.defer(store.close);
  const supervisor = createSupervisor({ clock, log });
  cleanup.together(supervisor.close);
  health.onRecovered(supervisor.retry);
  const untraced = createAccepting({ store, metrics, log, privacy });
  return {
    ...engine,
    arrivals,
    supervise: supervisor.supervise,
    accepting: tracing?.accepting(untraced) ?? untraced,
    backlog: createCount(clock.now, store.browse.backlog, []),
  };
}
