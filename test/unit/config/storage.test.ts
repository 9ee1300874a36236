import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import { parseSettings } from "../../../src/config/load.ts";
import { printSettings } from "../../../src/config/print.ts";
import { postgresPlaceText, readPostgresUrl } from "../../../src/model/postgres.ts";
import { createRedactor } from "../../../src/model/redact.ts";
import { readRedisUrl, redisPlaceText } from "../../../src/model/redis.ts";
import { faultsOf } from "./faults-of.ts";

const url = "redis://app:s3cr%2Ft@redis.internal:6380/2";
const load = (storage: string) => parseSettings(`storage: ${storage}`, "relay.yaml", {}).storage;

describe("storage with driver redis", () => {
  test("has a prefix and a bound on commands, and prints no password", () => {
    const storage = load(`{ driver: redis, url: "${url}" }`);
    expect(storage).toMatchObject({ driver: "redis", prefix: "relay", commandTimeout: 2000, cluster: false });
    const printed = printSettings(parseSettings(`storage: { driver: redis, url: "${url}" }`, "relay.yaml", {}));
    expect(printed).toContain("commandTimeout: 2s");
    for (const shown of [printed, JSON.stringify(storage), inspect(storage, { depth: null, showHidden: true })]) {
      expect(shown).not.toContain("s3cr");
    }
  });

  test.each([
    ["{ driver: redis }", "storage.url: is missing"],
    ["{ driver: redis, url: '' }", "storage.url: is empty (is the environment variable set?)"],
    ["{ driver: redis, url: 'http://a' }", "storage.url: is not a Redis URL"],
    ["{ driver: redis, url: 'redis://a', path: x }", "storage.path: unknown setting here (it belongs to another shape)"],
    ["{ path: x, url: 'redis://a' }", "storage.url: unknown setting here (it belongs to another shape)"],
    ["{ driver: redis, url: 'redis://a', prefix: 'a:b' }", "storage.prefix: is not a prefix"],
    ["{ driver: redis, url: 'redis://a', prefix: 'a{b}' }", "storage.prefix: is not a prefix"],
    ["{ driver: redis, url: 'redis://a', commandTimeout: 10ms }", "storage.commandTimeout: must be from 100ms to 30s"],
    ["{ driver: redis, url: 'redis://a,b' }", "storage.url: has several hosts"],
    ["{ driver: redis, url: 'redis://a/1', cluster: true }", "storage.url: names a database"],
    ["{ driver: redis, url: 'redis://a', cluster: true, sentinel: m }", "storage.sentinel: and cluster: true exclude one another"],
    ["{ driver: mysql }", "storage.driver: must be one of sqlite, postgres, redis"],
  ])("%s: %s", (storage, fault) => {
    expect(faultsOf(`storage: ${storage}`)).toEqual([expect.stringContaining(fault)]);
  });

  test("several hosts are for Sentinels and Clusters", () => {
    expect(load("{ driver: redis, url: 'redis://a,b:7000', cluster: true }")).toMatchObject({ cluster: true });
    expect(load("{ driver: redis, url: 'rediss://a:26379,b:26379/3', sentinel: mymaster }")).toMatchObject({ sentinel: "mymaster" });
  });
});

test.each([
  ["redis://localhost", { tls: false, hosts: [{ host: "localhost", port: 6379 }], username: "", password: "", db: 0 }],
  [url, { tls: false, hosts: [{ host: "redis.internal", port: 6380 }], username: "app", password: "s3cr/t", db: 2 }],
  ["rediss://:p%40ss@[::1]:7000/", { tls: true, hosts: [{ host: "::1", port: 7000 }], username: "", password: "p@ss", db: 0 }],
])("%s is read", (text, place) => {
  expect(readRedisUrl(text)).toEqual(place);
  expect(redisPlaceText(place)).not.toMatch(/s3cr|p@ss/);
});

test.each([
  "",
  "redis://",
  "redis:/a",
  "https://a",
  "redis://a:0",
  "redis://a:70000",
  "redis://a/b",
  "redis://user@a",
  "redis://a?x=1",
  "redis://:p%zz@a",
  "redis://a,",
])("%j is no Redis URL", (text) => expect(readRedisUrl(text)).toBeNull());

const database = "postgres://app:s3cr%2Ft@db.internal:6432/relay?sslmode=require";

describe("storage with driver postgres", () => {
  test("has a schema, and prints no password", () => {
    const settings = parseSettings(`storage: { driver: postgres, url: "${database}" }`, "relay.yaml", {});
    expect(settings.storage).toMatchObject({ driver: "postgres", schema: "relay" });
    for (const shown of [printSettings(settings), JSON.stringify(settings), inspect(settings, { depth: null, showHidden: true })]) {
      expect(shown).not.toContain("s3cr");
    }
    const longer = parseSettings(`storage: { driver: postgres, url: "postgres://app:long-s3cr%2Ft@/relay?host=/run" }`, "relay.yaml", {});
    expect(createRedactor(longer).text("with long-s3cr/t and long-s3cr%2Ft")).not.toContain("s3cr");
  });

  test.each([
    ["{ driver: postgres }", "storage.url: is missing"],
    ["{ driver: postgres, url: 'redis://a' }", "storage.url: is not a PostgreSQL URL"],
    ["{ driver: postgres, url: 'postgres://u@a/b', prefix: x }", "storage.prefix: unknown setting here (it belongs to another shape)"],
    ["{ driver: postgres, url: 'postgres://u@a/b', schema: 'Relay-1' }", "storage.schema: is not a schema"],
  ])("%s: %s", (storage, fault) => {
    expect(faultsOf(`storage: ${storage}`)).toEqual([expect.stringContaining(fault)]);
  });
});

test.each([
  ["postgresql://u@localhost/b", { host: "localhost", port: 5432, user: "u", password: "", database: "b", isEncrypted: false }],
  [database, { host: "db.internal", port: 6432, user: "app", password: "s3cr/t", database: "relay", isEncrypted: true }],
  ["postgres://u:p%40ss@[::1]/b", { host: "::1", port: 5432, user: "u", password: "p@ss", database: "b", isEncrypted: false }],
  ["postgres://u@/b?host=/run/pg&port=5433", { host: "/run/pg", port: 5433, user: "u", password: "", database: "b", isEncrypted: false }],
])("%s is read", (text, place) => {
  expect(readPostgresUrl(text)).toEqual(place);
  expect(postgresPlaceText(place)).not.toMatch(/s3cr|p@ss/);
});

test.each([
  "",
  "postgres://u@a",
  "postgres://a/b",
  "postgres://u@/b",
  "postgres://u@a:0/b",
  "postgres://u@a,c/b",
  "postgres://u@a/b?sslmode=prefer",
  "postgres://u@a/b?options=-c",
  "postgres://u:p%zz@a/b",
])("%j is no PostgreSQL URL", (text) => expect(readPostgresUrl(text)).toBeNull());
