import { onTestFinished } from "vitest";
import { createDatabase } from "../setup/database.ts";
import type { SettingsParts } from "./relay-settings.ts";

/** Both engines, for tests of what people see, which is the same on either. */
export const engines = ["sqlite", "postgres"] as const;
export type Engine = (typeof engines)[number];

/** The part of the settings that gives the running test a store of this engine for itself. */
export async function storageOf(engine: Engine): Promise<SettingsParts> {
  const { settings, close } = await openStorage(engine);
  onTestFinished(close);
  return settings;
}

/** The same for tests that share a store: to be closed where it was called in `beforeAll`. */
export async function openStorage(
  engine: Engine,
): Promise<{ readonly settings: SettingsParts; close(): Promise<void> }> {
  if (engine === "sqlite") return { settings: {}, close: async () => {} };
  const { url, drop } = await createDatabase();
  return { settings: { storage: { driver: "postgres", url } }, close: drop };
}
