import { onTestFinished } from "vitest";
import { createDatabase } from "../setup/database.ts";
import { startPostgres } from "../setup/postgres.ts";
import type { SettingsParts } from "./relay-settings.ts";

/** Both engines, for tests of what people see, which is the same on either. */
export const engines = ["sqlite", "postgres"] as const;
export type Engine = (typeof engines)[number];

interface StorageOptions {
  /** Commits wait for the disk, so that the relay finds nothing to report about the server, which is one of its own. */
  readonly durable?: boolean;
}

/** The part of the settings that gives the running test a store of this engine for itself. */
export async function storageOf(engine: Engine, options: StorageOptions = {}): Promise<SettingsParts> {
  const { settings, close } = await openStorage(engine, options);
  onTestFinished(close);
  return settings;
}

/** The same for tests that share a store: to be closed where it was called in `beforeAll`. */
export async function openStorage(
  engine: Engine,
  { durable = false }: StorageOptions = {},
): Promise<{ readonly settings: SettingsParts; close(): Promise<void> }> {
  if (engine === "sqlite") return { settings: {}, close: async () => {} };
  const { url, close } = durable ? await ownServer() : await ownDatabase();
  return { settings: { storage: { driver: "postgres", url } }, close };
}

async function ownServer() {
  const { url, stop } = await startPostgres({ durable: true });
  return { url, close: stop };
}

async function ownDatabase() {
  const { url, drop } = await createDatabase();
  return { url, close: drop };
}
