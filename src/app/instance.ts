import { randomUUID } from "node:crypto";
import { realpathSync } from "node:fs";
import { hostname } from "node:os";
import type { Settings } from "../config/schema.ts";
import type { InstanceView } from "../model/answers.ts";
import { relayVersion } from "../model/version.ts";
import { postgresName, type StorageSettings } from "../store/settings.ts";
import type { Role } from "./engine.ts";

export type Instance = Pick<InstanceView, "instance" | "version" | "startedAt">;

/** The id of this process, which its store and `/healthz` show. */
export const createInstance = (startedAt: number): Instance => ({ instance: randomUUID(), version: relayVersion(), startedAt });

export function viewInstance(instance: Instance, role: Exclude<Role, "work">, { storage }: Pick<Settings, "storage">): InstanceView {
  return {
    ...instance,
    pid: process.pid,
    host: hostname(),
    role,
    store: { driver: storage.driver, place: storePlace(storage) },
  };
}

/** Where the store is, for people: links and relative paths resolved, and no password. */
export function storePlace(storage: StorageSettings): string {
  return storage.driver === "postgres" ? postgresName(storage) : realPath(storage.path);
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
