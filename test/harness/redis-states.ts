import { Redis as Client } from "ioredis";
import { onTestFinished } from "vitest";
import { type Redis, type RedisOptions, startRedis } from "../setup/redis.ts";

/** A Redis for the running test, stopped at its end. */
export async function redisForTest(options: RedisOptions = {}): Promise<Redis> {
  const redis = await startRedis(options);
  onTestFinished(() => redis.stop());
  return redis;
}

/** A killed Redis again, on its port and folder. Its folder stays the first one's to remove. */
export function restartRedis(
  { port, dir }: Redis,
  options: Omit<RedisOptions, "port" | "dir"> = {},
): Promise<Redis> {
  return redisForTest({ ...options, port, dir });
}

/**
 * Runs one command on a connection of its own, with no other command before it: a Redis kept busy
 * takes few.
 */
export async function tellRedis(
  { url }: Pick<Redis, "url">,
  command: string,
  ...list: (string | number)[]
): Promise<unknown> {
  const client = new Client(url, {
    maxRetriesPerRequest: 3,
    enableReadyCheck: false,
    disableClientInfo: true,
    protocol: 2,
  });
  client.on("error", () => {});
  try {
    return await client.call(command, ...list);
  } finally {
    client.disconnect();
  }
}

/**
 * So little memory is allowed from now on that every write is refused with OOM; `0` allows any
 * again.
 */
export const fillRedis = (redis: Redis) => tellRedis(redis, "CONFIG", "SET", "maxmemory", "1");
export const emptyRedis = (redis: Redis) => tellRedis(redis, "CONFIG", "SET", "maxmemory", "0");

/**
 * Makes it a replica of a primary that is not there: reads are answered (stale), writes refused
 * with READONLY.
 */
export const makeReplica = (redis: Redis) => tellRedis(redis, "REPLICAOF", "127.0.0.1", "1");
export const makePrimary = (redis: Redis) => tellRedis(redis, "REPLICAOF", "NO", "ONE");
