// Slow: it waits for Sentinel to elect another primary.
import { expect, test } from "vitest";
import { checkRedis } from "../../../src/cli/doctor/redis.ts";
import { sentinelForTest } from "../../harness/redis-sentinel.ts";
import { tellRedis } from "../../harness/redis-states.ts";
import { freePort } from "../../setup/free-port.ts";
import { commandTimeout, failing, redisSettings, watch } from "./connection-tools.ts";

test("finds the primary through Sentinel, and the next one after it dies", { tags: ["slow"] }, async () => {
  const { url, primary, replica } = await sentinelForTest();
  const settings = redisSettings(url, { sentinel: "main", commandTimeout });
  const { redis, stands } = watch(settings);
  expect(await redis.opened()).toEqual({ kind: "up" });
  await redis.run((client) => client.set("before", "yes"));
  expect((await checkRedis(settings)).map(({ check }) => check)).toContain("redis replicas");
  await primary.kill();
  await stands("unreachable");
  expect((await failing(redis)).error).toMatchObject({ name: "StoreUnavailable" });
  await stands("up");
  expect(await redis.run((client) => client.set("after", "yes"))).toBe("OK");
  expect(await tellRedis(replica, "GET", "after")).toBe("yes");
});

test("without a Sentinel Redis counts as down, and doctor reports it in time", async () => {
  const settings = redisSettings(`redis://127.0.0.1:${await freePort()}`, { sentinel: "main", commandTimeout });
  const { redis } = watch(settings);
  expect((await failing(redis)).error).toMatchObject({ name: "StoreUnavailable" });
  expect(await redis.opened()).toMatchObject({ kind: "down", fault: { kind: "unreachable" } });
  expect(await checkRedis(settings, commandTimeout)).toEqual([expect.objectContaining({ level: "fail" })]);
});
