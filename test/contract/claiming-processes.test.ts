import { afterAll, beforeAll, expect, test } from "vitest";
import { until } from "../harness/until.ts";
import { type Redis, startRedis } from "../setup/redis.ts";
import { anEvent, rulesFor, start } from "./store-events.ts";
import { openProcesses } from "./three-processes.ts";

const rules = rulesFor([{ name: "all" }]);
let redis: Redis;

beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());

const claimOf = (holder: string, leaseMs: number) => ({ now: start + 3_600_000, limit: 10, maxBytes: 1_000_000, leaseMs, holder });

test("another process claims a dead process's deliveries after the lease, in the same order", async () => {
  const { stores, client, key } = openProcesses(redis, rules);
  const [one, two] = stores;
  for (const wamid of ["a", "b"]) await one.accept(anEvent({ wamid }));
  expect((await one.claim("all", { ...claimOf("one", 60_000), limit: 1 })).deliveries.map(({ event }) => event)).toEqual([1]);
  expect((await two.claim("all", claimOf("two", 60_000))).deliveries.map(({ event }) => event)).toEqual([2]);
  await two.handBack("all", [2], "two");
  // As if a minute had passed.
  await client.zadd(key("leased:all"), "XX", Date.now() - 1_000, "000000000000001");
  const taken = await until("the lease is over", async () => {
    const { deliveries } = await two.claim("all", { ...claimOf("two", 60_000), limit: 1 });
    await two.handBack(
      "all",
      deliveries.map(({ event }) => event).filter((event) => event === 2),
      "two",
    );
    return deliveries.find(({ event }) => event === 1);
  });
  expect(taken.attempts).toBe(0);
  expect(await one.renew("all", [1], "one", 60_000)).toEqual([1]);
  expect(Number(await client.get(key("claimed")))).toBeGreaterThan(0);
});

test("leases that expired while Redis was unavailable can be renewed and settled by their holders first", async () => {
  const { stores, client, key } = openProcesses(redis, rules);
  const [one, two] = stores;
  await one.accept(anEvent({ wamid: "a" }));
  expect((await one.claim("all", claimOf("one", 1))).deliveries).toHaveLength(1);
  // Nobody asked for six seconds.
  await client.decrby(key("claimed"), 6000);
  await until("the lease has ended", async () => Number((await client.zscore(key("leased:all"), "000000000000001")) ?? 0) < Date.now() - 5);
  expect((await two.claim("all", claimOf("two", 60_000))).deliveries).toEqual([]);
  expect((await two.claim("all", claimOf("two", 60_000))).deliveries).toEqual([]);
  expect(await one.renew("all", [1], "one", 1)).toEqual([]);
  // The five seconds are over, and nobody has renewed since.
  await client.decrby(key("claimed"), 5000);
  await until("it is another's", async () => (await two.claim("all", claimOf("two", 60_000))).deliveries.length === 1);
});
