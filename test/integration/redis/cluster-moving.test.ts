// Slow: it moves a slot of a Redis Cluster under load.
import { expect, onTestFinished, test } from "vitest";
import { createRedisStore } from "../../../src/store/redis/open.ts";
import { anEvent, rulesFor, start } from "../../contract/store-events.ts";
import { clusterForTest } from "../../harness/redis-cluster.ts";
import { tellRedis } from "../../harness/redis-states.ts";
import { until } from "../../harness/until.ts";
import { commandTimeout, redisSettings, watch } from "./connection-tools.ts";

test("writes nothing twice while a Cluster moves the slot, and continues afterwards", {
  tags: ["slow"],
}, async () => {
  const cluster = await clusterForTest();
  const { redis } = watch(redisSettings(cluster.url, { cluster: true, commandTimeout }));
  await redis.opened();
  const store = createRedisStore(redis, "relay", rulesFor([{ name: "all" }], { unknown: "forward" }), { committed: () => {} });
  onTestFinished(() => store.close());
  const known = anEvent({ id: "known", wamid: "w" });
  expect(await store.accept(known)).toMatchObject({ result: "accepted", seq: 1 });

  const slot = Number(await tellRedis(cluster.nodes[0] as { url: string }, "CLUSTER", "KEYSLOT", "{relay}:seq"));
  const from = await cluster.ownerOf("relay");
  const to = cluster.nodes.find((node) => node !== from) as typeof from;
  const [fromId, toId] = (await Promise.all([from, to].map((node) => tellRedis(node, "CLUSTER", "MYID")))) as [string, string];
  const move = (...keys: string[]) => tellRedis(from, "MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", ...keys);
  await tellRedis(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", fromId);
  await tellRedis(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", toId);
  const refused = async () => {
    for (const event of [known, anEvent({ id: "fresh", wamid: "w" })]) {
      await expect(store.accept(event)).rejects.toMatchObject({ name: "StoreUnavailable" });
      await until("it is asked again", () => redis.state().kind === "up");
    }
  };
  // All is where it was, and then what scripts are sent by has gone, the ids not yet.
  await refused();
  await move("{relay}:seq");
  await refused();
  await move(...((await tellRedis(from, "CLUSTER", "GETKEYSINSLOT", slot, 1000)) as string[]));
  for (const node of cluster.nodes) await tellRedis(node, "CLUSTER", "SETSLOT", slot, "NODE", toId);

  const again = await until("it takes again", () => store.accept(known).catch(() => null));
  expect(again).toMatchObject({ result: "duplicate", seq: 1 });
  expect(await store.accept(anEvent({ id: "after", wamid: "w" }))).toMatchObject({ result: "accepted", seq: 2 });
  const { balanced, rows } = await store.inspecting.audit({ now: start, isRunning: true, mostOffenders: 10 }, () => {});
  expect([balanced, rows]).toEqual([true, { events: 2, deliveries: 2, attempts: 0 }]);
});
