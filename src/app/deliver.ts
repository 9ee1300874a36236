import type { Settings } from "../config/schema.ts";
import { redactAnswer, redactAnswers } from "../deliver/destinations/destination.ts";
import { createUrlDestination } from "../deliver/destinations/url.ts";
import { createDispatcher } from "../deliver/dispatcher.ts";
import { createProxy } from "../deliver/proxy.ts";
import { createDestinations } from "../deliver/settings.ts";
import { storedBreakers } from "../inspect/diagnosis.ts";
import type { BreakerView } from "../model/delivery.ts";
import type { Backups } from "./backups.ts";
import { laneHooks } from "./hooks.ts";
import { proxiedSources } from "./rules.ts";
import type { Stored } from "./store.ts";
import { startUpkeep } from "./upkeep.ts";

export type Delivering = Awaited<ReturnType<typeof startDelivering>>;

/** The fourth phase: deliveries, proxied exchanges, and the upkeep of the store. */
export async function startDelivering(stored: Stored) {
  const { run, live, settings, redactor, tracing, store, clock, lanes, accepting } = stored;
  const { works, random, cleanup } = run;
  const { storage, server } = live.initial;
  const plainHooks = laneHooks(stored, clock);
  const hooks = tracing?.attempts(plainHooks) ?? plainHooks;

  const proxy = createProxy(proxiedSources(live.initial), {
    connect: (to, keep) => createUrlDestination(to, clock.now, keep),
    clock,
    redact: (outcome, outgoing) => redactAnswer(outcome, outgoing, redactor),
    accept: accepting.accept,
    settle: store.settleExchange,
    hooks,
  });
  cleanup.defer(proxy.close);
  live.follow((next) => proxy.reload(proxiedSources(next)));

  const connect = createDestinations(clock.now);
  const routesOf = ({ routes }: Settings) => (works ? routes : []);
  const dispatcher = createDispatcher(routesOf(live.initial), {
    ...lanes,
    clock,
    random,
    connect: (to) => redactAnswers(connect(to), redactor),
    hooks,
  });
  cleanup.together(() => dispatcher.close(server.shutdownTimeout));
  live.follow((next) => dispatcher.reload(routesOf(next)));

  let backups: Backups | null = null;
  if (works) {
    store.onDue(dispatcher);
    startUpkeep(stored);
    if (storage.driver === "sqlite") {
      const { startBackups } = await import("./backups.ts");
      backups = startBackups({ ...stored, path: storage.path });
      live.follow(backups.wake);
    }
  }

  return {
    proxy,
    dispatcher,
    backupFailure: () => backups?.failure() ?? null,
    async breakers(): Promise<ReadonlyMap<string, BreakerView>> {
      const known = await storedBreakers(settings().routes, store.notesOf, clock.now());
      const own = [...dispatcher.states()].map(
        ([name, { breaker, failing, pausedUntil, openUntil }]) => {
          return [
            name,
            {
              state: breaker,
              pausedUntil,
              openUntil,
              failingSince: failing?.since ?? null,
              failing,
              stop: known.get(name)?.stop ?? null,
            },
          ] as const;
        },
      );
      return new Map([...known, ...own]);
    },
  };
}
