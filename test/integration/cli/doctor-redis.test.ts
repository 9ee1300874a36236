import { expect, test } from "vitest";
import {
  assessDestination,
  checkRedisDestination,
  type RedisFacts,
} from "../../../src/cli/doctor/redis.ts";
import { Secret } from "../../../src/model/secret.ts";
import { emptyRedis, fillRedis, makeReplica, redisForTest } from "../../harness/redis-states.ts";
import { freePort } from "../../setup/free-port.ts";
import { startRaw } from "../url-destination/downstream.ts";

const check = (url: string, withinMs?: number) =>
  checkRedisDestination("jobs", new Secret(url), undefined, withinMs);

const sound: RedisFacts = {
  version: "7.0.15",
  mode: "standalone",
  role: "master",
  usedBytes: 100,
  maxBytes: 1000,
  policy: "noeviction",
  appendOnly: true,
  pingMs: 0.2,
};

test.each<[string, Partial<RedisFacts>, string[]]>([
  ["sound", {}, ["ok"]],
  ["a replica", { role: "slave" }, ["fail"]],
  ["a node of a Cluster", { mode: "cluster" }, ["warn"]],
  [
    "one that evicts and keeps no file",
    { policy: "allkeys-lru", appendOnly: false },
    ["warn", "warn"],
  ],
  ["nearly full", { usedBytes: 960 }, ["fail"]],
  ["without a limit", { maxBytes: 0 }, ["ok"]],
  [
    "one that reports nothing",
    {
      version: null,
      mode: null,
      role: null,
      usedBytes: null,
      maxBytes: null,
      policy: null,
      appendOnly: null,
    },
    ["ok"],
  ],
])("judges the Redis of a queue or stream: %s", (_, facts, levels) => {
  expect(
    assessDestination("jobs: redis://r:6379/0", { ...sound, ...facts }).map(({ level }) => level),
  ).toEqual(levels);
});

test("reports a full Redis, a replica, and a sound one", async () => {
  const redis = await redisForTest({ appendonly: "always" });
  await fillRedis(redis);
  expect(await check(redis.url)).toMatchObject([
    { level: "fail", message: expect.stringMatching(/^jobs: redis:.* is full/) },
  ]);
  await emptyRedis(redis);
  expect(await check(redis.url)).toMatchObject([
    { level: "ok", message: expect.stringMatching(/ version \d+\.\S+, answers in \S+ ms$/) },
  ]);
  await makeReplica(redis);
  expect(await check(redis.url)).toMatchObject([
    { level: "fail", todo: expect.stringContaining("primary") },
  ]);
});

test("warns of a node of a Cluster", async () => {
  const node = await redisForTest({ appendonly: "always", args: ["--cluster-enabled", "yes"] });
  expect(await check(node.url)).toMatchObject([
    { level: "warn", message: expect.stringContaining("is a node of a Cluster") },
  ]);
});

test.each([
  [
    "nothing that listens",
    async () => `redis://127.0.0.1:${await freePort()}`,
    "Redis cannot be reached (ECONNREFUSED)",
  ],
  [
    "a wrong password",
    async () =>
      `redis://:s3cret@127.0.0.1:${(await redisForTest({ args: ["--requirepass", "other"] })).port}`,
    "Redis refuses the user or the password",
  ],
  [
    "an unknown database",
    async () => `${(await redisForTest({ args: ["--databases", "4"] })).url}/4`,
    "no database of that number",
  ],
])("reports %s in one finding without the password", async (_, url, message) => {
  const findings = await check(await url());
  expect(findings).toEqual([
    {
      check: "destination",
      level: "fail",
      message: expect.stringContaining(message),
      todo: expect.stringMatching(/./),
    },
  ]);
  expect(JSON.stringify(findings)).not.toContain("s3cret");
});

test("suggests that the port has no TLS when the server stays silent", async () => {
  const { url } = await redisForTest();
  expect(await check(url.replace("redis:", "rediss:"), 1_000)).toMatchObject([
    { level: "fail", todo: expect.stringContaining("has that port no TLS?") },
  ]);
});

test("suggests that the port needs TLS when the server closes the connection", async () => {
  const { port } = await startRaw(
    (socket) => void socket.once("data", () => socket.resetAndDestroy()),
  );
  expect(await check(`redis://127.0.0.1:${port}`)).toMatchObject([
    { level: "fail", todo: expect.stringContaining("does that port want TLS?") },
  ]);
});
