import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { freePort } from "../setup/free-port.ts";
import { findRedisServer, type Redis } from "../setup/redis.ts";
import { redisForTest, tellRedis } from "./redis-states.ts";
import { until } from "./until.ts";

/** A primary and its replica, known as `main` to one Sentinel, which fails over half a second after the primary has gone. */
export async function sentinelForTest(): Promise<{ readonly url: string; readonly primary: Redis; readonly replica: Redis }> {
  const [primary, replica] = [await redisForTest(), await redisForTest()];
  await tellRedis(replica, "REPLICAOF", "127.0.0.1", primary.port);
  await until("the replica follows", async () => String(await tellRedis(replica, "INFO", "replication")).includes("master_link_status:up"));

  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-sentinel-"));
  const file = join(folder, "sentinel.conf");
  const settings = ["down-after-milliseconds main 500", "failover-timeout main 3000", "parallel-syncs main 1"];
  writeFileSync(
    file,
    [
      `port ${port}`,
      "bind 127.0.0.1",
      `dir ${folder}`,
      `sentinel monitor main 127.0.0.1 ${primary.port} 1`,
      ...settings.map((line) => `sentinel ${line}`),
    ].join("\n"),
  );
  const child = spawn(findRedisServer(), [file, "--sentinel"], { stdio: "ignore" });
  onTestFinished(async () => {
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
    rmSync(folder, { recursive: true, force: true });
  });
  const url = `redis://127.0.0.1:${port}`;
  await until("the Sentinel knows the replica", async () =>
    String(await tellRedis({ url }, "SENTINEL", "REPLICAS", "main").catch(() => "")).includes(String(replica.port)),
  );
  return { url, primary, replica };
}
