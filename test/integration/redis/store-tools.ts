import { onTestFinished } from "vitest";
import { redisOfFile } from "../../contract/redis-of-file.ts";
import { type OpenedStore, openRedisStore } from "../../contract/redis-queue.ts";
import { rulesFor } from "../../contract/store-events.ts";

/** A Redis for the tests of a file, and stores on it. */
export function storesOnRedis(routes: Parameters<typeof rulesFor>[0]) {
  const { client, link } = redisOfFile();
  return {
    client,
    /** The store as one process of several has it, with `plansLater` that of a receiver; closed at the end of the test. */
    storeOf(prefix: string, plansLater = false): OpenedStore {
      const store = openRedisStore(link, prefix, rulesFor(routes), { committed: () => {} }, plansLater);
      onTestFinished(() => store.close());
      return store;
    },
  };
}
