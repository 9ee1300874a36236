import { expect, test } from "vitest";
import { judgeVersions } from "../../../src/cli/doctor/processes.ts";
import { judgeDestination, judgeRedis, type RedisFacts } from "../../../src/cli/doctor/redis-judge.ts";
import type { Presence } from "../../../src/store/redis/server.ts";

const MiB = 1024 ** 2;

const sound: RedisFacts = {
  version: "7.0.15",
  role: "master",
  replicas: 0,
  neededReplicas: 0,
  replicaLagSeconds: 10,
  usedBytes: 100 * MiB,
  maxBytes: 1000 * MiB,
  policy: "noeviction",
  evicted: 0,
  appendOnly: true,
  appendSync: "always",
  snapshots: false,
  failedWrites: [],
  ping: { p50: 0.2, p99: 0.9 },
  write: { p50: 1.1, p99: 4 },
  skewMs: 3,
};

const judged = (facts: Partial<RedisFacts>): string[] =>
  judgeRedis("redis://r:6379/0", { ...sound, ...facts })
    .filter(({ level }) => level !== "ok")
    .map(({ check, level }) => `${level} ${check}`);

test("a sound Redis is ok in every line", () => {
  expect(judged({})).toEqual([]);
  expect(judgeRedis("redis://r:6379/0", sound).map(({ check }) => check)).toEqual([
    "redis",
    "redis memory",
    "redis durability",
    "redis replicas",
    "redis latency",
    "redis clock",
  ]);
});

test.each<[string, Partial<RedisFacts>, string[]]>([
  ["too old", { version: "6.2.14" }, ["fail redis"]],
  ["a later one", { version: "10.0.0" }, []],
  ["a replica", { role: "slave" }, ["fail redis"]],
  ["throws keys away", { policy: "allkeys-lru" }, ["fail redis memory"]],
  ["throws keys with an end away", { policy: "volatile-ttl" }, ["fail redis memory"]],
  ["has thrown keys away", { evicted: 3 }, ["fail redis memory"]],
  ["no limit of memory", { maxBytes: 0 }, ["warn redis memory"]],
  ["three quarters full", { usedBytes: 750 * MiB }, ["warn redis memory"]],
  ["as good as full", { usedBytes: 960 * MiB }, ["fail redis memory"]],
  ["no append-only file", { appendOnly: false, appendSync: "everysec" }, ["fail redis durability"]],
  ["synced each second", { appendSync: "everysec" }, ["warn redis durability"]],
  ["synced when the system likes", { appendSync: "no" }, ["warn redis durability"]],
  ["CONFIG is not allowed", { appendSync: null, snapshots: null }, ["warn redis durability"]],
  ["files that cannot be written", { failedWrites: ["snapshot"] }, ["fail redis files"]],
  ["replicas, none of which it needs", { replicas: 2 }, ["warn redis replicas"]],
  ["replicas, one of which it needs", { replicas: 2, neededReplicas: 1 }, []],
  ["replicas, one of which it needs at any time", { replicas: 2, neededReplicas: 1, replicaLagSeconds: 0 }, ["warn redis replicas"]],
  ["replicas, and CONFIG is not allowed", { replicas: 2, neededReplicas: null, replicaLagSeconds: null }, []],
  ["far away now and then", { ping: { p50: 5, p99: 60 } }, ["warn redis latency"]],
  ["a slow disk", { write: { p50: 130, p99: 400 } }, ["fail redis latency"]],
  ["another time", { skewMs: -1_500 }, ["warn redis clock"]],
  [
    "tells nothing",
    { version: null, role: null, usedBytes: null, maxBytes: null, appendOnly: null },
    ["warn redis", "warn redis memory", "warn redis durability"],
  ],
])("%s", (_, facts, expected) => {
  expect(judged(facts)).toEqual(expected);
});

test("reports the risk of each sync policy", () => {
  const told = (facts: Partial<RedisFacts>) => judgeRedis("r", { ...sound, ...facts }).find(({ check }) => check === "redis durability");
  expect(told({})?.message).toContain("nothing acknowledged is lost");
  expect(told({ appendSync: "everysec" })?.message).toContain("up to two seconds");
  expect(told({ appendOnly: false, snapshots: true })?.message).toContain("since the last snapshot");
  expect(told({ appendOnly: false, snapshots: false })?.message).toContain("everything is lost");
});

test("judges the Redis of a queue or stream by what it could lose", () => {
  const judge = (facts: Partial<RedisFacts>) => judgeDestination("q", "redis://r:6379/0", { ...sound, write: null, ...facts });
  expect(judge({}).map(({ level }) => level)).toEqual(["ok"]);
  expect(judge({ policy: "allkeys-lru", appendOnly: false }).map(({ level }) => level)).toEqual(["warn", "warn"]);
  expect(judge({ role: "slave" }).map(({ level }) => level)).toEqual(["fail"]);
});

test("processes of different versions on one Redis are a warning that names them", () => {
  const presence = (pid: number, version: string, role: Presence["role"] = "both"): Presence => ({
    id: String(pid),
    role,
    host: "here",
    pid,
    version,
    since: 0,
  });
  expect(judgeVersions([presence(1, "1.0.0"), presence(2, "1.0.0"), presence(3, "1.1.0", "command")])).toEqual([]);
  expect(judgeVersions([presence(1, "1.1.0"), presence(2, "1.0.0"), presence(3, "1.1.0")])).toMatchObject([
    { level: "warn", message: "run different versions: 1.0.0 (process 2 on here); 1.1.0 (process 1 on here, process 3 on here)" },
  ]);
});
