// Slow: it starts a Redis Cluster of three nodes.
import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { checkSchema } from "../../../src/store/redis/schema.ts";
import { clusterForTest } from "../../harness/redis-cluster.ts";
import { until } from "../../harness/until.ts";
import { commandTimeout, redisSettings, watch } from "./connection-tools.ts";

test("notices a Cluster node that returns empty while the client stays connected", {
  tags: ["slow"],
}, async () => {
  const cluster = await clusterForTest();
  const found: string[] = [];
  const { redis } = watch(redisSettings(cluster.url, { cluster: true, commandTimeout }), {
    greet: async (client) => found.push(await checkSchema(client, "relay")),
  });
  await redis.opened();
  expect(found).toHaveLength(1);
  const owner = await cluster.ownerOf("relay");
  await owner.kill();
  rmSync(join(owner.dir, "appendonlydir"), { recursive: true });
  await cluster.restart(owner);
  const other = await until("it was greeted as another", () => found.find((name) => name !== found[0]));
  expect(await redis.client.get("{relay}:schema")).toContain(other);
});
