import { stoppedDuring } from "../deliver/proxy.ts";
import type { Health } from "../observe/health.ts";
import type { Store } from "../store/create-store.ts";
import { StoreUnavailable } from "../store/port.ts";
import type { Background, Stored } from "./store.ts";

export interface UpkeepParts
  extends Pick<Background, "settings" | "store" | "clock" | "supervise" | "metrics"> {
  readonly backlog: Stored["backlog"];
  readonly health: Pick<Health, "storing">;
}

/**
 * Most rows of one step. The store takes fewer: as many as fit into some milliseconds of the
 * writing thread.
 */
const stepRows = 2_000;
/** When a step expires fewer rows than this, no more are due now. */
const fewRows = 50;
/** Pause between steps, so that upkeep takes a small share of the writer under load. */
const stepPauseMs = 20;
/** The same while parked events are released: their deliveries are late already. */
const releasePauseMs = 5;
const passPauseMs = { least: 1_000, most: 60_000 };
const expireEveryMs = 500;
const probeEveryMs = 1_000;
const exchangesEveryMs = 10_000;
const sampleEveryMs = 60_000;
/** How long a leader lease lasts, and how often the other processes try to get it. */
const leaseMs = { lasts: 15_000, retry: 5_000 };

/**
 * The slow work beside receiving and delivering, in small steps: parked events, retention, left
 * exchanges, the store's health.
 */
export function startUpkeep({
  settings,
  store,
  backlog,
  clock,
  supervise,
  health,
  metrics,
}: UpkeepParts): void {
  /** One process of those that share a store does this: the same one, as long as it lives. */
  const asLeader = (name: string, run: () => Promise<number>) => async (): Promise<number> => {
    if (!(await store.holdLease(name, leaseMs.lasts))) return leaseMs.retry;
    const nextMs = await run();
    if (nextMs >= leaseMs.lasts) await store.holdLease(name, nextMs + leaseMs.lasts);
    return nextMs;
  };

  async function handleParked(): Promise<number> {
    const { released, due } = await store.releaseParked(clock.now(), stepRows);
    store.announce(due);
    if (released > 0) return releasePauseMs;
    const expired = await store.expireParked(clock.now(), stepRows);
    store.announce(expired.due);
    return expired.concluded < fewRows ? expireEveryMs : stepPauseMs;
  }

  async function purge(): Promise<number> {
    const { retention, send } = settings();
    await store.forgetSends(clock.now() - send.keepKeys, stepRows);
    const purged = await store.purge(clock.now(), retention, stepRows);
    for (const what of ["events", "deliveries", "messages"] as const) {
      if (purged[what] > 0) metrics.deleted.inc({ what }, purged[what]);
    }
    if (!purged.done) return stepPauseMs;
    const shortest = Math.min(...Object.values(retention));
    return Math.min(passPauseMs.most, Math.max(passPauseMs.least, shortest));
  }

  async function probe(): Promise<number> {
    if ((await store.isInPlace()) && !health.storing())
      await store.probe(clock.now()).catch(() => {});
    return probeEveryMs;
  }

  async function endExchanges(): Promise<number> {
    await store.endLeftExchanges(clock.now(), stoppedDuring);
    return exchangesEveryMs;
  }

  /**
   * The gauges of the history. A process that starts samples at once, so that a minute is left out
   * at most.
   */
  async function sample(): Promise<number> {
    const routes = await backlog();
    const now = clock.now();
    const oldestDueAt = Math.min(now, ...routes.flatMap((route) => route.oldestDueAt ?? []));
    const deadLetters = routes.reduce((sum, { dead }) => sum + dead, 0);
    await store.sampleGauges({ oldest: (now - oldestDueAt) / 1000, deadLetters }, now);
    return sampleEveryMs;
  }

  supervise({ name: "history", firstMs: stepPauseMs, run: asLeader("history", sample) });
  supervise({ name: "parking", firstMs: expireEveryMs, run: asLeader("parking", handleParked) });
  supervise({ name: "retention", firstMs: stepPauseMs, run: asLeader("retention", purge) });
  supervise({ name: "store probe", firstMs: probeEveryMs, run: probe });
  // A relay that is alone on its store did this when it started.
  if (store.isShared)
    supervise({
      name: "ending exchanges",
      firstMs: exchangesEveryMs,
      run: asLeader("exchanges", endExchanges),
    });
}

/**
 * At start: ends the exchanges that a crash cut short. Nobody answered, and their steps have gone
 * on by their error exits.
 */
export async function endLeftExchanges(
  store: Pick<Store, "endLeftExchanges" | "isShared">,
  now: number,
): Promise<void> {
  try {
    await store.endLeftExchanges(now, stoppedDuring);
  } catch (error) {
    // A shared store may be unavailable at start; upkeep tries again.
    if (!(store.isShared && error instanceof StoreUnavailable)) throw error;
  }
}
