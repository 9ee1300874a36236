import { createReadyQueue, type DeliveryStore } from "../deliver/ready-queue.ts";
import { pausedUntil as endOfPause } from "../deliver/session.ts";
import { breakerName, type LaneSettings } from "../deliver/settings.ts";
import type { BreakerView } from "../model/shared-limits.ts";
import { systemClock } from "../model/system-clock.ts";

import { postgresName, type StorageSettings } from "../store/settings.ts";
import type { SqliteStore } from "../store/sqlite/open.ts";
import type { StoreReader } from "../store/sqlite/read.ts";
import type { Engine, OpenOptions, ReadingEngine } from "./engine.ts";

/** Opens the store of the settings, and loads only its engine. Throws `StoreRefused` when that fails. */
export async function openStore(storage: StorageSettings, options: OpenOptions): Promise<Engine> {
  if (storage.driver === "redis") {
    const { openRedis } = await import("./open-redis.ts");
    return openRedis(storage, options);
  }
  if (storage.driver === "postgres") {
    const { openPostgres } = await import("./open-postgres.ts");
    return openPostgres(storage, options);
  }
  const { instance, rules, hooks, clock = systemClock } = options;
  const { openSqliteStore } = await import("../store/sqlite/open.ts");
  const store = openSqliteStore(storage.path, rules, hooks, instance);
  const breakersOf = breakersInFile(store.read, clock.now);
  const deliveries = formerQueue(store);
  const { stories } = store.read;
  return {
    store,
    clock,
    lanes: {
      queueOf: (route, lane, stopped) => createReadyQueue(route, lane, { store: deliveries, clock, isShared: false, stopped }),
      notesOf: (route) => ({
        stop: store.stopReason(route),
        pause: stories.pauseOf(route),
        opened: null,
        failing: stories.failingOf(route),
      }),
    },
    breakersOf,
    tryNow: ({ name }) => store.endPause(name, clock.now()),
  };
}

/** Throws `StoreRefused` when the store cannot be opened. */
export async function openStoreForReading(storage: StorageSettings): Promise<ReadingEngine> {
  if (storage.driver === "redis") {
    const { openRedisForReading } = await import("./open-redis.ts");
    return openRedisForReading(storage);
  }
  if (storage.driver === "postgres") {
    const { openPostgresForReading } = await import("./open-postgres.ts");
    return openPostgresForReading(storage);
  }
  const { openReader } = await import("../store/sqlite/read.ts");
  const reader = openReader(storage.path);
  return {
    read: reader,
    inspecting: reader.inspecting,
    now: systemClock.now,
    breakersOf: breakersInFile(reader, systemClock.now),
    close: reader.close,
  };
}

/** The queue of the former engine, which knows no lanes. */
function formerQueue(store: SqliteStore): DeliveryStore {
  return {
    due({ route, now, limit }) {
      const events = store.due(route, now, limit);
      const nextAt = events.length < limit ? store.nextDueAt(route, now) : null;
      return { places: events.map((event) => ({ lane: 0, event, at: now })), nextAt };
    },
    load: (route, keys) =>
      store.reading(() =>
        keys.flatMap(({ event }) => {
          const delivery = store.load(route, event);
          return delivery === null ? [] : [{ ...delivery, lane: 0, cause: null, dueAt: 0 }];
        }),
      ),
    async settle(settling) {
      const event = await store.settle(settling);
      return { result: "settled", released: event === null ? null : { lane: 0, event, at: settling.at } };
    },
    stopReason: store.stopReason,
  };
}

/** A file stores the pauses of breakers, and the failures in a row. Whether one is open is in the memory of its relay. */
export function breakersInFile({ stories }: Pick<StoreReader, "stories">, now: () => number) {
  function pausedUntil(route: LaneSettings): number | null {
    const pause = stories.pauseOf(route.name);
    if (pause === null || pause.breaker !== breakerName(route) || pause.until <= now()) return null;
    return endOfPause(pause.until, route, now());
  }
  return (routes: readonly LaneSettings[]): ReadonlyMap<string, BreakerView> =>
    new Map(
      routes.map((route) => {
        const failing = stories.failingOf(route.name);
        const failingSince = failing?.since ?? null;
        return [route.name, { state: "closed", pausedUntil: pausedUntil(route), openUntil: null, failingSince, failing }];
      }),
    );
}

/** Where the store is, for people. */
export function storeName(storage: StorageSettings): string {
  if (storage.driver === "postgres") return postgresName(storage);
  return storage.driver === "sqlite" ? storage.path : `Redis, prefix ${storage.prefix}`;
}
