import { afterAll, beforeAll } from "vitest";
import { type Redis, startRedis } from "../setup/redis.ts";
import { historyContract } from "./history-contract.ts";
import { openRedisSubject } from "./redis-subject.ts";
import { storeContract } from "./store-contract.ts";

let redis: Redis;

beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());

storeContract("redis", (rules) => openRedisSubject(redis.url, rules));
storeContract("redis, planned after it was accepted", (rules) => openRedisSubject(redis.url, rules, { plansLater: true }));
historyContract((rules) => openRedisSubject(redis.url, rules));
historyContract((rules) => openRedisSubject(redis.url, rules, { plansLater: true }));
