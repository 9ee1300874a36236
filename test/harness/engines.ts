import { startRedis } from "../setup/redis.ts";
import { redisForTest } from "./redis-states.ts";
import type { SettingsParts } from "./relay-settings.ts";

/** Both engines, for tests of what people see, which is the same on either. */
export const engines = ["sqlite", "redis"] as const;
export type Engine = (typeof engines)[number];

const durable = { appendonly: "always" } as const;

/** The part of the settings that gives the running test a store of this engine for itself. */
export async function storageOf(engine: Engine): Promise<SettingsParts> {
  if (engine === "sqlite") return {};
  const { url } = await redisForTest(durable);
  // A busy machine is no fault of Redis.
  return { storage: { driver: "redis", url, commandTimeout: "30s" } };
}

/** The same for tests that share a store: to be closed where it was called in `beforeAll`. */
export async function openStorage(engine: Engine): Promise<{ readonly settings: SettingsParts; close(): Promise<void> }> {
  if (engine === "sqlite") return { settings: {}, close: async () => {} };
  const redis = await startRedis(durable);
  return { settings: { storage: { driver: "redis", url: redis.url, commandTimeout: "30s" } }, close: () => redis.stop() };
}
