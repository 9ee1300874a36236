import { existsSync } from "node:fs";
import { Redis as Client } from "ioredis";
import { afterEach, expect, test } from "vitest";
import { longestWaitMs } from "../harness/until.ts";
import { findRedisServer, type Redis, startRedis } from "./redis.ts";

const started: Redis[] = [];
const clients: Client[] = [];

async function start(...options: Parameters<typeof startRedis>): Promise<Redis> {
  const redis = await startRedis(...options);
  started.push(redis);
  return redis;
}

function clientOf(redis: Redis): Client {
  const client = new Client(redis.url, { retryStrategy: null, maxRetriesPerRequest: 1, connectTimeout: longestWaitMs });
  client.on("error", () => {});
  clients.push(client);
  return client;
}

afterEach(async () => {
  for (const client of clients.splice(0)) client.disconnect();
  for (const redis of started.splice(0).reverse()) await redis.stop();
});

test("answers with the policy that keeps everything, and leaves nothing behind when stopped", async () => {
  const redis = await start({ appendonly: "everysec" });
  const config = await clientOf(redis).config("GET", "*");
  expect(JSON.stringify(config)).toContain("noeviction");
  expect(JSON.stringify(config)).toContain("everysec");
  expect(existsSync(redis.dir)).toBe(true);
  await redis.stop();
  expect(existsSync(redis.dir)).toBe(false);
  expect(() => process.kill(redis.pid, 0)).toThrow("ESRCH");
});

test("keeps what was acknowledged over a kill, with the append-only file synced always", async () => {
  const first = await start({ appendonly: "always" });
  await clientOf(first).set("kept", "yes");
  await first.kill();
  const second = await start({ appendonly: "always", dir: first.dir, port: first.port });
  expect(second.pid).not.toBe(first.pid);
  expect(await clientOf(second).get("kept")).toBe("yes");
});

test("two at once are two servers, and a taken port is an error of one line", async () => {
  const [one, two] = await Promise.all([start(), start()]);
  expect(one.port).not.toBe(two.port);
  await clientOf(one).set("whose", "one");
  expect(await clientOf(two).get("whose")).toBeNull();
  const refused = await startRedis({ port: one.port }).catch((error: Error) => error.message);
  expect(refused).toMatch(/^redis-server did not start on port \d+: [^\n]+$/);
  expect(await clientOf(one).get("whose")).toBe("one");
});

test("says what to install where it is missing", () => {
  expect(() => findRedisServer({ PATH: "" })).toThrow(/^redis-server was not found: install [^\n]+$/);
});
