import { Redis as Client } from "ioredis";
import { afterAll, beforeAll, onTestFinished } from "vitest";
import { createRedisStore, type RedisStore } from "../../../src/store/redis/redis-store.ts";
import { rulesFor } from "../../contract/store-events.ts";
import { type Redis, startRedis } from "../../setup/redis.ts";

/** A Redis for the tests of a file, and stores on it. */
export function storesOnRedis(routes: Parameters<typeof rulesFor>[0]) {
  let redis: Redis;
  let client: Client;
  beforeAll(async () => {
    redis = await startRedis();
    client = new Client(redis.url);
  });
  afterAll(async () => {
    client.disconnect();
    await redis.stop();
  });
  return {
    client: () => client,
    /** The store as one process of several has it, with `plansLater` that of a receiver; closed at the end of the test. */
    storeOf(prefix: string, plansLater = false): RedisStore {
      const link = { run: <T>(command: (client: Client) => Promise<T>) => command(client) };
      const store = createRedisStore(link, prefix, rulesFor(routes), { committed: () => {} }, plansLater);
      onTestFinished(() => store.close());
      return store;
    },
  };
}
