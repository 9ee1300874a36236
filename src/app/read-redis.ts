import { systemClock } from "../model/system-clock.ts";
import { type AccountState, quotaReasons } from "../service/limits/account.ts";
import { planCaps, planId } from "../service/limits/caps.ts";
import { quotaUntil } from "../service/limits/probes.ts";
import { StoreRefused } from "../store/port.ts";
import { connectRedis, redisAddress } from "../store/redis/connection.ts";
import { keysOf } from "../store/redis/keys.ts";
import { createReader } from "../store/redis/read.ts";
import { createReadHydrations } from "../store/redis/read-hydrations.ts";
import { checkReadable, refuseUnfinished } from "../store/redis/schema.ts";
import { createRedisClock } from "../store/redis/server.ts";
import { createRedisCaps } from "../store/redis/shared-limits.ts";
import { createStoredEvents } from "../store/redis/stored-events.ts";
import type { RedisSettings } from "../store/settings.ts";
import type { StoreToRead } from "./open-store.ts";
import { sharedBreakers } from "./shared-breakers.ts";

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
    async quotaStops(account, baseUrl, plan) {
      const known = await createRedisCaps(connection, storage.prefix, account, baseUrl).read();
      if (known === null) return [];
      // It was written by a process of this version.
      const state = JSON.parse(known.state) as AccountState;
      if (state.plan !== planId(planCaps[plan])) return [];
      const toUnix = (at: number) => at - known.now + known.wall;
      return quotaReasons.flatMap((reason) => {
        const stop = state.quotas[reason];
        if (stop === null) return [];
        const until = new Date(quotaUntil(stop, clock.now(), toUnix)).toISOString();
        return [{ account, reason, resource: stop.resource, until }];
      });
    },
    async close() {
      await inspecting.close();
      await connection.close();
    },
  };
}
