import { Redis as Client } from "ioredis";
import { afterAll, beforeAll } from "vitest";
import type { RedisLink } from "../../src/store/redis/client.ts";
import { type Redis, startRedis } from "../setup/redis.ts";

export interface RedisOfFile {
  readonly url: () => string;
  readonly client: () => Client;
  /** For stores that all use the one client. */
  readonly link: RedisLink;
}

/** A Redis for the tests of a file, with one client of it; both are there once the tests run. */
export function redisOfFile(): RedisOfFile {
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
  return { url: () => redis.url, client: () => client, link: { run: (command) => command(client) } };
}
