import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { Lease } from "../model/route-lease.ts";
import { relayVersion } from "../model/version.ts";
import { openPostgresStore, openPostgresForReading as openReading } from "../store/postgres/open.ts";
import type { PostgresStorage } from "../store/settings.ts";
import { notesOf } from "../store/work/route-notes.ts";
import type { Engine, OpenOptions, ReadingEngine } from "./engine.ts";
import { leasedLanes, storedBreakers } from "./lanes.ts";

export const postgresSettings = ({ url, schema, tls }: PostgresStorage) => ({ url: url.reveal(), schema, tls });

/** The store on PostgreSQL. Throws `StoreRefused` for what no waiting repairs. */
export async function openPostgres(
  storage: PostgresStorage,
  { role, instance = randomUUID(), rules, hooks, clock: given }: OpenOptions,
): Promise<Engine> {
  const held = new Map<string, Lease>();
  const presence = { id: instance, role, host: hostname(), pid: process.pid, version: relayVersion() };
  const opened = await openPostgresStore(postgresSettings(storage), { rules, hooks, presence, held: () => held, clock: given });
  const { clock, processes } = opened;
  return {
    store: opened.store,
    clock,
    lanes: leasedLanes({ store: opened.store, clock, worker: instance, held, failed: hooks.failed }),
    breakersOf: storedBreakers(opened.store, clock.now),
    processes,
    tryNow: ({ name }) => opened.store.endPause(name, clock.now()),
  };
}

/** Opens the database of relays for reading, as long as a command runs. Throws `StoreRefused` when that fails. */
export async function openPostgresForReading(storage: PostgresStorage): Promise<ReadingEngine> {
  const { read, reading, inspecting, clock, processes, close } = await openReading(postgresSettings(storage));
  return {
    read: reading,
    inspecting,
    now: clock.now,
    breakersOf: storedBreakers({ notesOf: (routes) => read(notesOf(routes)) }, clock.now),
    processes,
    close,
  };
}
