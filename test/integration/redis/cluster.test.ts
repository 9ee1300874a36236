// Slow: it starts a Redis Cluster, and kills and freezes nodes.
import { expect, onTestFinished, test } from "vitest";
import { checkRedis } from "../../../src/cli/doctor/redis.ts";
import { systemClock } from "../../../src/model/system-clock.ts";
import { createWorkQueue } from "../../../src/store/redis/work-queue.ts";
import type { DueDelivery } from "../../../src/store/rules.ts";
import { clusterForTest } from "../../harness/redis-cluster.ts";
import { until } from "../../harness/until.ts";
import { commandTimeout, failing, failingAtOnce, redisSettings, watch } from "./connection-tools.ts";

test("keeps all keys on one Cluster node, and survives its kill and hang", { tags: ["slow"] }, async () => {
  const cluster = await clusterForTest();
  const settings = redisSettings(cluster.url, { cluster: true, commandTimeout });
  const { redis, moves, stands } = watch(settings);
  expect(await redis.opened()).toEqual({ kind: "up" });
  // Several keys in one step, as every script of the relay has them.
  expect(await redis.run((client) => client.mset("{relay}:a", "1", "{relay}:b", "2"))).toBe("OK");
  const findings = await checkRedis(settings);
  expect(findings.filter(({ level }) => level === "fail")).toEqual([]);

  const owner = await cluster.ownerOf("relay");
  // Without cluster: true, a node that has other slots is no store.
  const other = watch(redisSettings(cluster.nodes.find((node) => node !== owner)?.url ?? ""));
  expect(await other.redis.opened()).toMatchObject({ kind: "down", fault: { kind: "cluster" } });

  await owner.kill();
  await failing(redis);
  expect(redis.state().kind).toBe("down");
  for (const error of await failingAtOnce(redis)) expect(error).toMatchObject({ name: "StoreUnavailable", mayBeDone: false });
  const again = await cluster.restart(owner);
  await stands("up");
  expect(await redis.run((client) => client.mget("{relay}:a", "{relay}:b"))).toEqual(["1", "2"]);

  again.hang();
  await failing(redis);
  expect(redis.state().kind).toBe("down");
  again.goOn();
  await stands("up");
  expect(await redis.run((client) => client.get("{relay}:a"))).toBe("1");
  expect(moves.length).toBeLessThan(12);

  const receiver = createWorkQueue({ settings, client: redis.client, clock: systemClock });
  const worker = createWorkQueue({ settings, client: redis.client, clock: systemClock });
  onTestFinished(async () => {
    await Promise.all([receiver.close(), worker.close()]);
  });
  const woken: string[] = [];
  worker.onDue({ offer: () => {}, wake: (route) => woken.push(route) });
  receiver.announce([{ route: "r", at: 0 } as DueDelivery]);
  await until("a job arrived", () => woken.includes("r"));
});
