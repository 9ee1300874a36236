import { createCount, untilFailed } from "../inspect/count.ts";
import { createArrivals } from "../receive/http.ts";
import { createAccepting } from "./accept.ts";
import { planningFailed, storeHooks } from "./hooks.ts";
import type { Observed } from "./observe.ts";
import { openStore } from "./open-store.ts";
import { createRules } from "./rules.ts";
import { createSupervisor } from "./supervise.ts";

export type Stored = Awaited<ReturnType<typeof startStore>>;

/** What works in the background needs. */
export type Background = Pick<
  Stored,
  "settings" | "store" | "clock" | "supervise" | "log" | "privacy" | "metrics"
>;

/**
 * The second phase: the store with the rules that it runs, its clock, background tasks, and the
 * entry for events.
 */
export async function startStore(observed: Observed) {
  const { run, live, instance, log, health, tracing } = observed;
  const rules = createRules(live.initial, (error, event) => planningFailed(observed, error, event));
  live.follow(rules.reload);
  const arrivals = createArrivals();
  const engine = await openStore(live.initial.storage, {
    role: run.dispatch ? run.role : "command",
    instance: instance.instance,
    rules,
    hooks: storeHooks(observed, arrivals.expected),
    clock: run.clock,
  });
  const { store, clock } = engine;
  run.cleanup.defer(store.close);
  const supervisor = createSupervisor({ clock, log });
  run.cleanup.together(supervisor.close);
  health.onRecovered(supervisor.retry);
  const untraced = createAccepting({ ...observed, store });
  return {
    ...observed,
    ...engine,
    arrivals,
    supervise: supervisor.supervise,
    accepting: tracing?.accepting(untraced) ?? untraced,
    backlog: createCount(clock.now, () => untilFailed(store.browse.backlog(), health.failure), []),
  };
}
