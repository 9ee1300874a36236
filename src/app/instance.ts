import { randomUUID } from "node:crypto";
import { realpathSync, statSync } from "node:fs";
import { hostname } from "node:os";
import { digestDataId, digesting, type SettingsDigests } from "../config/digest.ts";
import type { Settings } from "../config/schema.ts";
import type { InstanceView } from "../model/answers.ts";
import { readRedisUrl, redisPlaceText } from "../model/redis.ts";
import { runInTurns } from "../model/steps.ts";
import { relayVersion } from "../model/version.ts";
import { StoreUnavailable } from "../store/port.ts";
import type { StoreReading } from "../store/reading.ts";
import type { StorageSettings } from "../store/settings.ts";
import { postgresName } from "../store/settings.ts";
import type { Role } from "./engine.ts";

export type Instance = Pick<InstanceView, "instance" | "version" | "startedAt">;

/** The id of this process, which its store and `/healthz` show. */
export const createInstance = (startedAt: number): Instance => ({ instance: randomUUID(), version: relayVersion(), startedAt });

/** Digests settings once for each reload. */
export function createDigests(): (settings: Settings, key: string) => Promise<SettingsDigests> {
  let last: { settings: Settings; key: string; digests: Promise<SettingsDigests> } | undefined;
  return (settings, key) => {
    if (last?.settings !== settings || last.key !== key) last = { settings, key, digests: runInTurns(digesting(settings, key)) };
    return last.digests;
  };
}

/** What `GET /v1/instance` shows. `settings`: those in effect, which after a reload are not all of the new ones. */
export async function viewInstance(
  instance: Instance,
  role: Exclude<Role, "work">,
  settings: Settings,
  { dataId, digests }: Pick<StoreReading, "dataId"> & { readonly digests: ReturnType<typeof createDigests> },
): Promise<InstanceView> {
  const id = await dataIdOf({ dataId });
  const { storage } = settings;
  return {
    ...instance,
    pid: process.pid,
    host: hostname(),
    role,
    store: {
      driver: storage.driver,
      place: storePlace(storage),
      data: id === null ? null : digestDataId(id),
      file: storage.driver === "sqlite" ? fileIdentity(storage.path) : null,
    },
    settings: id === null ? null : Object.entries(await digests(settings, id)).map(([path, digest]) => ({ path, digest })),
  };
}

async function dataIdOf(store: Pick<StoreReading, "dataId">): Promise<string | null> {
  try {
    return await store.dataId();
  } catch (error) {
    if (error instanceof StoreUnavailable) return null;
    throw error;
  }
}

/** Where the store is, for people: links and relative paths resolved, and no password. */
export function storePlace(storage: StorageSettings): string {
  if (storage.driver === "sqlite") return realPath(storage.path);
  if (storage.driver === "postgres") return postgresName(storage);
  const place = readRedisUrl(storage.url.reveal());
  return `${place === null ? "redis" : redisPlaceText(place)}, prefix ${storage.prefix}`;
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

/** Device and inode: two links to one file are the same file, and a copy is another. Null: there is no file. */
export function fileIdentity(path: string): string | null {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stats === undefined ? null : `${stats.dev}:${stats.ino}`;
}
