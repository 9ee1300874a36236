import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import type { FastifyInstance } from "fastify";
import type { ReadingSettings } from "../app/reading.ts";
import { withStandIns } from "../config/load.ts";
import type { Scope, Settings } from "../config/schema.ts";
import { Secret } from "../model/secret.ts";
import { StoreRefused } from "../store/port.ts";
import type { StorageSettings } from "../store/settings.ts";
import { CommandFailed } from "./io.ts";

interface StoreHere {
  readonly http: FastifyInstance;
  close(): Promise<void>;
}

/** Opens a store for reading. `failed` receives the cause of an answer 500. */
export async function openForReading(settings: ReadingSettings, failed: (error: Error) => void): Promise<StoreHere> {
  const { createReadingApi } = await import("../app/reading.ts");
  return opened(() => createReadingApi(settings, (error) => failed(error as Error)));
}

/** Opens a store for writing. The token has `scope`. Nothing is delivered. `calls`: the messaging service may be called. */
export async function openForWriting(settings: Settings, scope: Scope, calls: boolean): Promise<StoreHere & { readonly token: string }> {
  const { createRelay } = await import("../app/relay.ts");
  const token = randomBytes(24).toString("hex");
  const tokens = [{ name: "cli", token: new Secret(token), scopes: [scope, "pii" as const] }];
  const relay = await opened(() =>
    createRelay({
      settings: { ...withStandIns(settings), control: { ...settings.control, tokens } },
      log: { write: () => {}, end: async () => {} },
      dispatch: false,
      calls,
    }),
  );
  return { http: relay.http, token, close: relay.close };
}

async function opened<T>(open: () => Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (error) {
    if (error instanceof StoreRefused) throw new CommandFailed(error.message, { cause: error });
    throw error;
  }
}

export function isVisible(storage: StorageSettings): boolean {
  return storage.driver !== "sqlite" || existsSync(storage.path);
}

/** Whether another process than `instance` opened the file last for writing. */
export async function isOtherHolder(storage: StorageSettings, instance: string): Promise<boolean> {
  const id = storage.driver === "sqlite" && existsSync(storage.path) ? await readHolder(storage.path, "instance") : null;
  return id !== null && id !== instance;
}

/** The process that holds the store alone, for people; null when no process does. */
export async function holderOf(storage: StorageSettings): Promise<string | null> {
  if (storage.driver !== "sqlite") return null;
  const { isLocked } = await import("../store/sqlite/file.ts");
  if (isLocked(storage.path) !== true) return null;
  const name = await readHolder(storage.path, "holder");
  return `another wamid-relay process${name === null ? "" : ` (${name})`}`;
}

async function readHolder(path: string, key: "holder" | "instance"): Promise<string | null> {
  const { openReader } = await import("../store/sqlite/reader.ts");
  try {
    const reader = openReader(path);
    try {
      return reader.file[key]();
    } finally {
      await reader.close();
    }
  } catch {
    return null;
  }
}
