import { inspect } from "node:util";
import { expect, test } from "vitest";
import { runMulti, runPipeline } from "../../../src/store/redis/client.ts";
import { makePrimary, makeReplica, redisForTest } from "../../harness/redis-states.ts";
import { redisSettings, watch } from "./connection-tools.ts";

const ways = [
  ["a pipeline", runPipeline],
  ["a transaction", runMulti],
] as const;

test.each(ways)("%s returns the results of its commands, and rejects if one is wrong, without its arguments", async (_, run) => {
  const server = await redisForTest();
  const { redis } = watch(redisSettings(server.url));
  await redis.opened();
  expect(await run(redis, (commands) => commands.set("k", "v").get("k").hmget("none", "a", "b"))).toEqual(["OK", "v", [null, null]]);
  const wrong = await run(redis, (commands) => commands.get("k").zscore("k", "wamid.secret")).catch((error: Error) => error);
  expect(wrong).toMatchObject({ name: "Error", message: expect.stringMatching(/^Redis: WRONGTYPE/) });
  expect(inspect(wrong, { depth: null })).not.toContain("wamid.secret");
  expect(redis.state()).toEqual({ kind: "up" });
});

test.each(ways)("%s that Redis refuses is reported as a fault of Redis", async (_, run) => {
  const server = await redisForTest({ args: ["--replica-serve-stale-data", "no"] });
  const { redis, stands } = watch(redisSettings(server.url));
  await redis.opened();
  await makeReplica(server);
  await expect(run(redis, (commands) => commands.get("a").get("b"))).rejects.toMatchObject({ name: "StoreUnavailable" });
  expect(redis.state()).toMatchObject({ kind: "refusing", fault: { kind: "read-only" } });
  await makePrimary(server);
  await stands("up");
  expect(await run(redis, (commands) => commands.get("a").get("b"))).toEqual([null, null]);
});
