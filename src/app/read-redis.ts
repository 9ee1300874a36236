import { connectRedis, redisAddress } from "../store/redis/connection.ts";
import { keysOf } from "../store/redis/keys.ts";
import { refuseUnfinished } from "../store/redis/migration-row.ts";
import { createReadHydrations } from "../store/redis/read-hydrations.ts";
import { createReader } from "../store/redis/reader.ts";
import { createRedisClock } from "../store/redis/redis-clock.ts";
import { checkReadable } from "../store/redis/schema-mark.ts";
import { createStoredEvents } from "../store/redis/stored-events.ts";
import type { RedisSettings } from "../store/settings.ts";
import { StoreRefused } from "../store/store-error.ts";
import type { StoreToRead } from "./open-store.ts";
import { sharedBreakers } from "./shared-breakers.ts";
import { systemClock } from "./system-clock.ts";

/** A relay's Redis to look into for the length of a command. Throws `StoreRefused` when it does not answer. */
export async function openRedisForReading(storage: RedisSettings): Promise<StoreToRead> {
  const clock = createRedisClock(systemClock);
  const connection = connectRedis(
    storage,
    { clock, presence: null, name: "wamid-relay command" },
    {
      async greet(redis) {
        await checkReadable(redis, storage.prefix);
        await refuseUnfinished(redis, storage.prefix);
      },
    },
  );
  try {
    const state = await connection.opened();
    // What refuses writes (full, a replica) can be looked into.
    if (state.kind === "down") throw new StoreRefused(`${redisAddress(storage)}: ${state.fault.message}`);
  } catch (error) {
    await connection.close();
    throw error;
  }
  const keys = keysOf(storage.prefix);
  const events = createStoredEvents(keys, connection);
  const { read, inspecting } = createReader(keys, connection, createReadHydrations(keys, connection, events));
  return {
    read,
    inspecting,
    now: clock.now,
    breakersOf: sharedBreakers(connection, storage.prefix),
    async close() {
      await inspecting.close();
      await connection.close();
    },
  };
}
