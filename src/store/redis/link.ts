import type { Redis } from "ioredis";

/** The way to Redis as the store uses it. */
export interface RedisLink {
  /** Rejects with `StoreUnavailable`, at once while Redis is known to be out of reach, and with the fault itself when it is the command's. */
  run<T>(command: (redis: Redis) => Promise<T>): Promise<T>;
}
