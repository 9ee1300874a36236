// Slow: it waits for a frozen Redis to be detected.
import { mkdirSync, rmdirSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { inspect } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../src/model/system-clock.ts";
import { StoreRefused } from "../../../src/store/port.ts";
import type { Redis } from "../../../src/store/redis/client.ts";
import { connectRedis } from "../../../src/store/redis/connection.ts";
import { checkSchema } from "../../../src/store/redis/schema.ts";
import { emptyRedis, fillRedis, makePrimary, makeReplica, redisForTest, restartRedis, tellRedis } from "../../harness/redis-states.ts";
import { until } from "../../harness/until.ts";
import { freePort } from "../../setup/free-port.ts";
import { commandTimeout, failing, failingAtOnce, redisSettings, watch } from "./connection-tools.ts";

test("runs commands, and rejects a wrong one with an error that omits its arguments", async () => {
  const server = await redisForTest();
  const { redis, moves } = watch(redisSettings(server.url));
  expect(await redis.opened()).toEqual({ kind: "up" });
  expect(await redis.run((client) => client.set("k", "wamid.secret"))).toBe("OK");
  const wrong = await redis.run((client) => client.lpush("k", "wamid.secret")).catch((error: Error) => error);
  expect(wrong).toMatchObject({ name: "Error", message: expect.stringMatching(/^Redis: WRONGTYPE/) });
  expect(inspect(wrong, { depth: null })).not.toContain("wamid.secret");
  expect(redis.state()).toEqual({ kind: "up" });
  expect(moves).toEqual(["up"]);
});

test("killed: fails at once, and recovers when Redis is back", async () => {
  const server = await redisForTest({ appendonly: "always" });
  const { redis, moves, stands } = watch(redisSettings(server.url));
  await redis.opened();
  await redis.run((client) => client.set("kept", "yes"));
  await server.kill();
  await stands("unreachable");
  for (const error of await failingAtOnce(redis)) {
    expect(error).toMatchObject({ name: "StoreUnavailable", kind: "unreachable", mayBeDone: false });
  }
  await restartRedis(server, { appendonly: "always" });
  await stands("up");
  expect(await redis.run((client) => client.get("kept"))).toBe("yes");
  expect(moves).toEqual(["up", "unreachable", "up"]);
});

test("not running at startup: reported at once, and used when it starts", async () => {
  const port = await freePort();
  const { redis, moves, stands } = watch(redisSettings(`redis://127.0.0.1:${port}`));
  expect((await failing(redis)).error).toMatchObject({ name: "StoreUnavailable" });
  expect(await redis.opened()).toMatchObject({ kind: "down", fault: { message: "Redis cannot be reached (ECONNREFUSED)" } });
  await redisForTest({ port });
  await stands("up");
  expect(await redis.run((client) => client.set("k", "v"))).toBe("OK");
  expect(moves).toEqual(["unreachable", "up"]);
});

test("hung: commands in flight time out, later ones fail at once, and it recovers", async () => {
  const server = await redisForTest();
  const { redis, moves, stands } = watch(redisSettings(server.url, { commandTimeout }));
  await redis.opened();
  server.hang();
  const first = await failing(redis);
  expect(first.error).toMatchObject({ name: "StoreUnavailable", kind: "hung", mayBeDone: true });
  for (const error of await failingAtOnce(redis)) expect(error).toMatchObject({ kind: "hung", mayBeDone: false });
  // Over several tries to connect again it is the same news.
  await until("a new connection was tried", () => redis.client.status === "connect");
  await until("and given up", () => redis.client.status === "reconnecting");
  expect(moves).toEqual(["up", "hung"]);
  server.goOn();
  await stands("up");
  expect(await redis.run((client) => client.set("k", "v"))).toBe("OK");
  expect(moves).toEqual(["up", "hung", "up"]);
});

test("notices a hung Redis without traffic", { tags: ["slow"] }, async () => {
  const server = await redisForTest();
  const { redis, stands } = watch(redisSettings(server.url, { commandTimeout }));
  await redis.opened();
  server.hang();
  await stands("hung");
  server.goOn();
  await stands("up");
});

test("full: writes fail with the reason, reads work, and it recovers when memory is free", async () => {
  const server = await redisForTest();
  const { redis, moves, stands } = watch(redisSettings(server.url));
  await redis.opened();
  await redis.run((client) => client.set("before", "yes"));
  await fillRedis(server);
  expect((await failing(redis)).error).toMatchObject({
    name: "StoreUnavailable",
    kind: "full",
    mayBeDone: false,
    message: "Redis is full (maxmemory)",
  });
  expect(redis.state().kind).toBe("refusing");
  expect(await redis.run((client) => client.get("before"))).toBe("yes");
  for (let i = 0; i < 20; i++) await failing(redis);
  expect(moves).toEqual(["up", "full"]);
  await emptyRedis(server);
  await stands("up");
  expect(await redis.run((client) => client.set("after", "yes"))).toBe("OK");
  expect(moves).toEqual(["up", "full", "up"]);
});

test("full at connect: reported with the reason, and a marked prefix can be read", async () => {
  const server = await redisForTest();
  const greet = (client: Redis) => checkSchema(client, "relay");
  const earlier = watch(redisSettings(server.url), { greet });
  expect(await earlier.redis.opened()).toEqual({ kind: "up" });
  await earlier.redis.run((client) => client.set("before", "yes"));
  await fillRedis(server);

  const later = watch(redisSettings(server.url), { greet });
  expect(await later.redis.opened()).toMatchObject({ kind: "refusing", fault: { kind: "full", message: "Redis is full (maxmemory)" } });
  expect(await later.redis.run((client) => client.get("before"))).toBe("yes");
  const ofNew = watch(redisSettings(server.url), { greet: (client) => checkSchema(client, "new") });
  expect(await ofNew.redis.opened()).toMatchObject({ kind: "down", fault: { kind: "full", message: "Redis is full (maxmemory)" } });
  expect((await failing(ofNew.redis)).error).toMatchObject({ name: "StoreUnavailable", kind: "full" });

  await emptyRedis(server);
  for (const { stands } of [earlier, later, ofNew]) await stands("up");
});

test("read-only after a failover: reconnects until it reaches the primary", async () => {
  const server = await redisForTest();
  const { redis, moves, stands } = watch(redisSettings(server.url));
  await redis.opened();
  await makeReplica(server);
  expect((await failing(redis)).error).toMatchObject({ kind: "read-only", mayBeDone: false });
  const connections = async () => Number(/total_connections_received:(\d+)/.exec(String(await tellRedis(server, "INFO", "stats")))?.[1]);
  const before = await connections();
  // Each look is a connection too: ours come on top.
  let looks = 0;
  await until("it connected anew", async () => (await connections()) - before > ++looks + 1);
  expect(moves).toEqual(["up", "read-only"]);
  await makePrimary(server);
  await stands("up");
  expect(moves).toEqual(["up", "read-only", "up"]);
});

test("a reader writes nothing, and can read a replica and a full Redis", async () => {
  const server = await redisForTest();
  const looking = async () => {
    const redis = connectRedis(redisSettings(server.url), { clock: systemClock, presence: null });
    onTestFinished(() => redis.close());
    expect(await redis.opened()).toEqual({ kind: "up" });
    for (let looks = 0; looks < 20; looks++) expect(await redis.run((client) => client.dbsize())).toBe(0);
  };
  await looking();
  await makeReplica(server);
  await looking();
  const { redis } = watch(redisSettings(server.url));
  expect(await redis.opened()).toMatchObject({ kind: "refusing" });
  for (let tries = 0; tries < 5; tries++) {
    expect((await failing(redis)).error).toMatchObject({ kind: "read-only", message: "Redis is a read-only replica" });
  }
  await makePrimary(server);
  await fillRedis(server);
  await looking();
});

test("too few replicas, unwritable files: writes are refused, and it recovers", async () => {
  const server = await redisForTest({ args: ["--save", "3600 1"] });
  const { redis, moves, stands } = watch(redisSettings(server.url));
  await redis.opened();
  await tellRedis(server, "CONFIG", "SET", "min-replicas-to-write", 1);
  expect((await failing(redis)).error).toMatchObject({ kind: "replicas", mayBeDone: false });
  await tellRedis(server, "CONFIG", "SET", "min-replicas-to-write", 0);
  await stands("up");

  // A folder where its file should be: the snapshot cannot take its name.
  mkdirSync(join(server.dir, "dump.rdb"));
  await tellRedis(server, "BGSAVE");
  await until("writes are refused", async () => (await failing(redis)).error.kind === "disk");
  rmdirSync(join(server.dir, "dump.rdb"));
  await until("the next snapshot was made", () => tellRedis(server, "BGSAVE").catch(() => false));
  await stands("up");
  expect(moves).toEqual(["up", "replicas", "up", "disk", "up"]);
});

test("a busy script counts as a hang until it ends", async () => {
  const server = await redisForTest({ args: ["--busy-reply-threshold", "50"] });
  const { redis, stands } = watch(redisSettings(server.url, { commandTimeout }));
  await redis.opened();
  const long = tellRedis(server, "EVAL", "while true do end", 0).catch((error: Error) => error.message);
  await stands("hung");
  await until("the script was ended", () => tellRedis(server, "SCRIPT", "KILL").catch(() => false));
  await stands("up");
  expect(await long).toMatch(/killed/i);
});

test("refuses a wrong password at startup in one line without it, and waits when the password changes later", async () => {
  const server = await redisForTest({ args: ["--requirepass", "right-one"] });
  const at = `127.0.0.1:${server.port}`;
  const wrong = watch(redisSettings(`redis://:wrong-one@${at}`));
  await expect(wrong.redis.opened()).rejects.toMatchObject({
    name: "StoreRefused",
    message: `redis://${at}/0: Redis refuses the user or the password`,
  });
  expect(wrong.moves, "nothing goes on, so nothing is told of how it goes on").toEqual([]);
  const none = watch(redisSettings(`redis://${at}`));
  await expect(none.redis.opened()).rejects.toMatchObject({ message: expect.stringContaining("asks for a password") });
  const right = watch(redisSettings(`redis://:right-one@${at}`));
  expect(await right.redis.opened()).toEqual({ kind: "up" });
  const asRight = { url: `redis://:right-one@${at}` };
  await tellRedis(asRight, "CONFIG", "SET", "requirepass", "other");
  await tellRedis({ url: `redis://:other@${at}` }, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
  await right.stands("credentials");
  await tellRedis({ url: `redis://:other@${at}` }, "CONFIG", "SET", "requirepass", "right-one");
  await right.stands("up");
});

test("refuses a database that Redis does not have, and does not use 0 instead", async () => {
  const server = await redisForTest({ args: ["--databases", "4"] });
  const { redis } = watch(redisSettings(`${server.url}/4`), { greet: (client) => client.set("greeted", "yes") });
  await expect(redis.opened()).rejects.toMatchObject({
    name: "StoreRefused",
    message: `redis://127.0.0.1:${server.port}/4: Redis has no database of that number`,
  });
  expect(await tellRedis(server, "DBSIZE")).toBe(0);
  const last = watch(redisSettings(`${server.url}/3`));
  expect(await last.redis.opened()).toEqual({ kind: "up" });
});

test("waits when Redis has reached its client limit", async () => {
  const server = await redisForTest();
  const holder = watch(redisSettings(server.url));
  await holder.redis.opened();
  await holder.redis.run((client) => client.config("SET", "maxclients", "1"));
  const late = watch(redisSettings(server.url));
  // Redis says why and closes at once: the end of the connection may overtake the words.
  expect(await late.redis.opened()).toMatchObject({ kind: "down", fault: { kind: expect.stringMatching(/^(clients|unreachable)$/) } });
  await holder.redis.run((client) => client.config("SET", "maxclients", "100"));
  await late.stands("up");
});

test("refuses a server that is not Redis", async () => {
  const http = createServer((_request, response) => void response.end("hello"));
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  const { port } = http.address() as { port: number };
  const { redis } = watch(redisSettings(`redis://127.0.0.1:${port}`));
  await expect(redis.opened()).rejects.toMatchObject({ name: "StoreRefused", message: expect.stringContaining("is no Redis") });
  http.close();
});

test("runs greet on every connection before using it, and passes on its refusal", async () => {
  const server = await redisForTest();
  let greeted = 0;
  const { redis, stands } = watch(redisSettings(server.url), {
    async greet(client) {
      greeted++;
      if ((await client.get("whose")) === "another's") throw new StoreRefused("holds another program's data");
    },
  });
  await redis.opened();
  expect(greeted).toBe(1);
  await tellRedis(server, "CLIENT", "KILL", "TYPE", "normal");
  await until("it was greeted again", () => greeted === 2);
  await stands("up");
  await tellRedis(server, "SET", "whose", "another's");
  const other = watch(redisSettings(server.url), {
    async greet() {
      throw new StoreRefused("holds another program's data");
    },
  });
  await expect(other.redis.opened()).rejects.toMatchObject({ message: `redis://127.0.0.1:${server.port}/0: holds another program's data` });
});
