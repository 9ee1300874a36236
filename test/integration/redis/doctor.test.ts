import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { Finding } from "../../../src/cli/doctor/finding.ts";
import { checkRedis } from "../../../src/cli/doctor/redis.ts";
import { runChecks } from "../../../src/cli/doctor/run.ts";
import { systemClock } from "../../../src/model/system-clock.ts";
import { schemaVersion } from "../../../src/store/redis/schema.ts";
import { createRedisClock } from "../../../src/store/redis/server.ts";
import { emptyRedis, fillRedis, makeReplica, redisForTest, tellRedis } from "../../harness/redis-states.ts";
import { settingsOf } from "../../harness/relay-settings.ts";
import { freePort } from "../../setup/free-port.ts";
import { commandTimeout, redisSettings, watch } from "./connection-tools.ts";

/** What doctor says with this Redis for its store, but for the lines that are about other things. */
async function examine(url: string, parts: Record<string, unknown> = {}): Promise<Finding[]> {
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const config = join(folder, "relay.yaml");
  const settings = {
    ...settingsOf({ port: await freePort(), storePath: "" }, parts),
    storage: { driver: "redis", url, commandTimeout: "30s" },
  };
  writeFileSync(config, JSON.stringify(settings));
  const findings = await runChecks({ config, env: {}, deep: false, offline: false });
  expect(JSON.stringify(findings)).not.toContain("s3cret");
  return findings.filter(({ check }) => /^(redis|processes|planning|store|destination)/.test(check));
}

/** Without what it finds of the time of answers: one slow one among twenty is a warning, and this machine may have other things to do. */
const lines = (findings: readonly Finding[]) =>
  findings.map(({ check, level }) => (check === "redis latency" ? check : `${level} ${check}`));

test("passes with AOF always, a memory limit, and a process that receives and works", async () => {
  const server = await redisForTest({ appendonly: "always", args: ["--maxmemory", "100mb"] });
  const { redis } = watch(redisSettings(server.url));
  await redis.opened();
  const findings = await examine(server.url);
  expect(lines(findings)).toEqual([
    "ok redis",
    "ok redis memory",
    "ok redis durability",
    "ok redis replicas",
    "redis latency",
    "ok redis clock",
    "ok processes",
  ]);
  expect(findings.at(-1)?.message).toBe("1 receive, 1 work");
  expect(findings[0]?.message).toMatch(/^redis:\/\/127\.0\.0\.1:\d+\/0 version \d+\.\d+/);
});

test("lists processes whose clocks are an hour behind or ahead", async () => {
  const server = await redisForTest();
  const processes = async () => (await examine(server.url)).find(({ check }) => check === "processes")?.message;
  for (const off of [-3_600_000, 3_600_000]) {
    const clock = createRedisClock({ ...systemClock, now: () => Date.now() + off });
    const { redis } = watch(redisSettings(server.url), {}, clock);
    await redis.opened();
    expect(await processes()).toBe("1 receive, 1 work");
    await redis.close();
    expect(await processes()).toBe("none is connected");
  }
});

test("warns about Redis defaults: no AOF, no memory limit, and an eviction policy", async () => {
  const server = await redisForTest({ args: ["--maxmemory-policy", "allkeys-lru"] });
  const findings = await examine(server.url);
  expect(lines(findings)).toEqual([
    "ok redis",
    "fail redis memory",
    "warn redis memory",
    "fail redis durability",
    "ok redis replicas",
    "redis latency",
    "ok redis clock",
    "warn processes",
  ]);
  for (const { level, todo } of findings) if (level !== "ok") expect(todo).toBeDefined();
});

test("reports what a user without CONFIG and INFO cannot read", async () => {
  const server = await redisForTest({ appendonly: "everysec" });
  await tellRedis(server, "ACL", "SETUSER", "app", "on", ">s3cret", "~*", "&*", "+@all", "-config", "-info");
  const findings = await examine(`redis://app:s3cret@127.0.0.1:${server.port}`);
  expect(lines(findings).slice(0, 3)).toEqual(["warn redis", "warn redis memory", "warn redis durability"]);
  await tellRedis(server, "ACL", "SETUSER", "app", "+info");
  const more = await examine(`redis://app:s3cret@127.0.0.1:${server.port}`);
  expect(more.find(({ check }) => check === "redis durability")?.message).toContain("CONFIG is not allowed");
});

test.each([
  ["not there", async () => `redis://127.0.0.1:${await freePort()}`, "Redis cannot be reached (ECONNREFUSED)"],
  [
    "a wrong password",
    async () => `redis://:s3cret@127.0.0.1:${(await redisForTest({ args: ["--requirepass", "other"] })).port}`,
    "Redis refuses the user or the password",
  ],
  [
    "a database that there is not",
    async () => `${(await redisForTest({ args: ["--databases", "4"] })).url}/4`,
    "no database of that number",
  ],
])("%s is one line", async (_, url, message) => {
  const findings = await examine(await url());
  expect(findings).toEqual([expect.objectContaining({ check: "redis", level: "fail", message: expect.stringContaining(message) })]);
  expect(findings[0]?.todo).toBeDefined();
});

test("reports that the full Redis of a queue takes no jobs", async () => {
  const [store, queue] = [await redisForTest({ appendonly: "always" }), await redisForTest({ appendonly: "always" })];
  await fillRedis(queue);
  const findings = await examine(store.url, { routes: [{ name: "jobs", to: { queue: "q", redis: queue.url } }] });
  const destination = findings.filter(({ check }) => check === "destination");
  expect(destination).toMatchObject([{ level: "fail", message: expect.stringMatching(/^jobs: .* is full/) }]);
  await emptyRedis(queue);
  const healed = await examine(store.url, { routes: [{ name: "jobs", to: { queue: "q", redis: queue.url } }] });
  expect(healed.filter(({ check }) => check === "destination")).toMatchObject([{ level: "ok" }]);
});

test("suggests that the port has no TLS when the server stays silent", async () => {
  const { url } = await redisForTest();
  const [found] = await checkRedis(redisSettings(url.replace("redis:", "rediss:")), commandTimeout);
  expect(found).toMatchObject({ level: "fail", todo: expect.stringContaining("has that port no TLS?") });
});

test("suggests that the port needs TLS when the server closes the connection", async () => {
  const hangsUp = createServer((socket) => socket.once("data", () => socket.resetAndDestroy()).on("error", () => {}));
  onTestFinished(() => void hangsUp.close());
  await once(hangsUp.listen(0, "127.0.0.1"), "listening");
  const { port } = hangsUp.address() as AddressInfo;
  const [found] = await checkRedis(redisSettings(`redis://127.0.0.1:${port}`));
  expect(found).toMatchObject({ level: "fail", todo: expect.stringContaining("does that port want TLS?") });
});

test("reports a replica as the store and under a queue", async () => {
  const [store, queue] = [await redisForTest({ appendonly: "always" }), await redisForTest()];
  for (const server of [store, queue]) await makeReplica(server);
  const findings = await examine(store.url, { routes: [{ name: "jobs", to: { queue: "q", redis: queue.url } }] });
  // It refuses the write that measures too.
  expect(lines(findings)).toEqual(["fail redis", "fail destination", "warn destination"]);
  expect(findings[0]?.todo).toContain("primary");
});

test.each([
  ["of a newer version", "schema", `${schemaVersion + 1} name`, "written by a newer version of wamid-relay"],
  [
    "of a migration that has not ended",
    "migration",
    `0123456789${JSON.stringify({ file: "f", path: "relay.db", startedAt: 1, finishedAt: null, step: 3, after: 4 })}`,
    "has not ended",
  ],
])("a prefix with data %s fails one line, and all others are shown", async (_, key, value, why) => {
  const server = await redisForTest({ appendonly: "always", args: ["--maxmemory", "100mb"] });
  await tellRedis(server, "SET", `{relay}:${key}`, value);
  const findings = await examine(server.url);
  expect(lines(findings)).toEqual(expect.arrayContaining(["ok redis", "ok redis clock", "fail store"]));
  expect(findings.find(({ check }) => check === "store")?.message).toContain(why);
});
