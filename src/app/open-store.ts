import { lanesOf } from "../deliver/lane.ts";
import { systemClock } from "../model/clock.ts";
import type { StorageSettings } from "../store/settings.ts";
import { notesOf } from "../store/work/state-rows.ts";
import type { Engine, OpenOptions } from "./engine.ts";
import type { ReadingEngine } from "./open-postgres.ts";

/**
 * Opens the store of the settings, and loads only its engine. Throws `StoreRefused` when that
 * fails.
 */
export async function openStore(storage: StorageSettings, options: OpenOptions): Promise<Engine> {
  if (storage.driver === "postgres") {
    const { openPostgres } = await import("./open-postgres.ts");
    return openPostgres(storage, options);
  }
  const { role, instance, rules, hooks, clock = systemClock } = options;
  const { openSqliteStore } = await import("../store/sqlite/open.ts");
  const store = openSqliteStore(storage.path, rules, hooks, instance, role === "command");
  return {
    store,
    clock,
    lanes: lanesOf(store, clock),
    processes: async () => [],
    database: async () => null,
  };
}

/** Throws `StoreRefused` when the store cannot be opened. */
export async function openStoreForReading(storage: StorageSettings): Promise<ReadingEngine> {
  if (storage.driver === "postgres") {
    const { openPostgresForReading } = await import("./open-postgres.ts");
    return openPostgresForReading(storage);
  }
  const { openReader } = await import("../store/sqlite/reader.ts");
  const { read, look, inspecting, close } = openReader(storage.path);
  const { now } = systemClock;
  return {
    read,
    inspecting,
    now,
    notesOf: async (routes) => look(notesOf(routes)),
    quotaStops: async () => [],
    database: async () => null,
    close,
  };
}
