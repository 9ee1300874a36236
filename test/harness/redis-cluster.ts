import { onTestFinished } from "vitest";
import { type Redis, startRedis } from "../setup/redis.ts";
import { tellRedis } from "./redis-states.ts";
import { until } from "./until.ts";

const slots = 16_384;

/** A Cluster of three primaries without replicas, each with a third of the slots, ended with the test. */
export async function clusterForTest(): Promise<{
  readonly nodes: readonly Redis[];
  /** Of all nodes, as `storage.url` takes them. */
  readonly url: string;
  /** The node that has the slot of `{prefix}`. */
  ownerOf(prefix: string): Promise<Redis>;
  /** A killed node again. Gives it anew. */
  restart(node: Redis): Promise<Redis>;
}> {
  const options = { appendonly: "always", args: ["--cluster-enabled", "yes", "--cluster-node-timeout", "5000"] } as const;
  const nodes = await Promise.all([0, 1, 2].map(() => startRedis(options)));
  for (const node of nodes) onTestFinished(() => node.stop());
  const bound = (index: number): number => Math.floor((slots * index) / nodes.length);
  const [first, ...others] = nodes as [Redis, ...Redis[]];
  await Promise.all(nodes.map((node, index) => tellRedis(node, "CLUSTER", "ADDSLOTSRANGE", bound(index), bound(index + 1) - 1)));
  for (const { port } of others) await tellRedis(first, "CLUSTER", "MEET", "127.0.0.1", port);
  for (const node of nodes) {
    await until("the nodes know each other", async () => {
      const info = String(await tellRedis(node, "CLUSTER", "INFO"));
      return info.includes("cluster_state:ok") && info.includes(`cluster_known_nodes:${nodes.length}`);
    });
  }
  return {
    nodes,
    url: `redis://${nodes.map(({ port }) => `127.0.0.1:${port}`).join(",")}`,
    async ownerOf(prefix) {
      const slot = Number(await tellRedis(first, "CLUSTER", "KEYSLOT", `{${prefix}}:`));
      return nodes[nodes.findIndex((_, index) => slot < bound(index + 1))] as Redis;
    },
    async restart({ port, dir }) {
      const again = await startRedis({ ...options, port, dir });
      onTestFinished(() => again.stop());
      return again;
    },
  };
}
