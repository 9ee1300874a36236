import { createBreaker } from "../deliver/breaker.ts";
import type { LaneParts } from "../deliver/lane.ts";
import { createReadyQueue } from "../deliver/ready-queue.ts";
import { breakerName, type LaneSettings } from "../deliver/settings.ts";
import type { Clock } from "../model/clock.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { SharedCaps } from "../model/shared-caps.ts";
import type { BreakerView } from "../model/shared-limits.ts";
import type { Plan } from "../service/limits/caps.ts";
import type { Store, StoreHooks } from "../store/port.ts";
import type { Inspecting, StoreReading } from "../store/reading.ts";
import type { Rules } from "../store/rules.ts";
import type { StorageSettings } from "../store/settings.ts";
import type { StoreReader } from "../store/sqlite/reader.ts";
import type { WaitingToBePlanned } from "./planning.ts";
import type { Role } from "./role.ts";
import type { StopView } from "./service-side.ts";
import { systemClock } from "./system-clock.ts";

/** What is opened of an engine: its store, and what lanes ask of it and of each other in other processes. */
export interface OpenedStore {
  readonly store: Store;
  /** Time as all have it that share the store. */
  readonly clock: Clock;
  /** What other processes only accepted, where there are others. */
  readonly planning?: WaitingToBePlanned;
  /** The caps of an account, where processes share them. */
  readonly caps?: (account: string, baseUrl: string) => SharedCaps;
  readonly lanes: Pick<LaneParts, "queueOf" | "breakerOf" | "bucketOf">;
  readonly breakersOf: BreakersOf;
  /** Ends the stored pause of a route's destination; true when there was one. */
  endPause(route: LaneSettings): Promise<boolean>;
}

/** What the store knows of the breakers of routes, by the routes' names. */
export type BreakersOf = (routes: readonly LaneSettings[]) => MaybePromise<ReadonlyMap<string, BreakerView>>;

export interface OpenParts {
  readonly storage: StorageSettings;
  /** `command`: a command that uses it for a moment. */
  readonly role: Role | "command";
  readonly rules: Rules;
  readonly hooks: StoreHooks;
  /** Not given: the machine's, or where processes share the store, that of the store. */
  readonly clock?: Clock | undefined;
}

/** Opens the store that the settings name. Throws `StoreRefused` when it cannot be had. */
export async function openStore({ storage, role, rules, hooks, clock: given }: OpenParts): Promise<OpenedStore> {
  if (storage.driver === "redis") {
    const { openRedis } = await import("./open-redis.ts");
    return openRedis(storage, role, { rules, hooks, clock: given });
  }
  const clock = given ?? systemClock;
  const { openSqliteStore } = await import("../store/sqlite/sqlite-store.ts");
  const store = openSqliteStore(storage.path, rules, hooks);
  const breakersOf = breakersInFile(store.read, clock.now);
  return {
    store,
    clock,
    lanes: {
      queueOf: (route) => createReadyQueue(route, store, clock),
      breakerOf(route) {
        const breaker = createBreaker(route.to.breaker, clock.now);
        breaker.pause(breakersOf([route]).get(route.name)?.pausedUntil ?? 0);
        return breaker;
      },
    },
    breakersOf,
    endPause: ({ name }) => store.endPause(name, clock.now()),
  };
}

/** What a file knows of breakers: the pauses. Which are open only its relay knows. */
export function breakersInFile({ stories }: Pick<StoreReader, "stories">, now: () => number) {
  function pausedUntil(route: LaneSettings): number | null {
    const pause = stories.pauseOf(route.name);
    if (pause === null || pause.breaker !== breakerName(route) || pause.until <= now()) return null;
    // More left than may be asked for: the clock was set back.
    return Math.min(pause.until, now() + ("maxRetryAfter" in route.to ? route.to.maxRetryAfter : 0));
  }
  return (routes: readonly LaneSettings[]): ReadonlyMap<string, BreakerView> =>
    new Map(routes.map((route) => [route.name, { state: "closed", pausedUntil: pausedUntil(route) }]));
}

/** A store to look into, beside the relays that may work on it. */
export interface StoreToRead {
  readonly read: StoreReading;
  readonly inspecting: Inspecting;
  /** As those relays have it. Unix ms. */
  now(): number;
  readonly breakersOf: BreakersOf;
  /** The stops of an account's quotas, where processes share them. */
  readonly quotaStops?: (account: string, baseUrl: string, plan: Plan) => Promise<readonly StopView[]>;
  close(): Promise<void>;
}

/** Throws `StoreRefused` when it cannot be had. */
export async function openStoreForReading(storage: StorageSettings): Promise<StoreToRead> {
  if (storage.driver === "redis") {
    const { openRedisForReading } = await import("./read-redis.ts");
    return openRedisForReading(storage);
  }
  const { openReader } = await import("../store/sqlite/reader.ts");
  const reader = openReader(storage.path);
  return {
    read: reader,
    inspecting: reader.inspecting,
    now: systemClock.now,
    breakersOf: breakersInFile(reader, systemClock.now),
    close: reader.close,
  };
}

/** Where a store is, for people. */
export function storeName(storage: StorageSettings): string {
  return storage.driver === "sqlite" ? storage.path : `Redis, prefix ${storage.prefix}`;
}
