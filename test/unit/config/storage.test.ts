import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import { parseSettings } from "../../../src/config/load.ts";
import { printSettings } from "../../../src/config/print.ts";
import { postgresPlaceText, readPostgresUrl } from "../../../src/model/postgres.ts";
import { createRedactor } from "../../../src/model/redact.ts";
import { readRedisUrl, redisPlaceText } from "../../../src/net/redis.ts";
import { faultsOf } from "./faults-of.ts";

const url = "redis://app:s3cr%2Ft@redis.internal:6380/2";
test.each([
  [`{ driver: redis, url: "${url}" }`, "storage.driver: "],
  ["{ driver: redis, url: 'postgres://u@a/b', prefix: x, cluster: true }", "storage.driver: "],
  [`{ driver: postgres, url: "${url}" }`, "storage.url: "],
  ["{ url: 'rediss://a' }", "storage.url: "],
])("%s is one fault, which names PostgreSQL", (storage, place) => {
  expect(faultsOf(`storage: ${storage}`)).toEqual([
    expect.stringContaining(
      `${place}Redis no longer stores events. Use PostgreSQL: storage: { driver: postgres, url: postgres://user:password@host:5432/database }`,
    ),
  ]);
});

test.each([
  [
    "{ path: x, url: 'postgres://u@a/b' }",
    "storage.url: unknown setting here (it belongs to another shape)",
  ],
  ["{ driver: mysql }", "storage.driver: must be sqlite or postgres"],
])("%s: %s", (storage, fault) => {
  expect(faultsOf(`storage: ${storage}`)).toEqual([expect.stringContaining(fault)]);
});

test.each([
  [
    "redis://localhost",
    { tls: false, host: "localhost", port: 6379, username: "", password: "", db: 0 },
  ],
  [
    url,
    { tls: false, host: "redis.internal", port: 6380, username: "app", password: "s3cr/t", db: 2 },
  ],
  [
    "rediss://:p%40ss@[::1]:7000/",
    { tls: true, host: "::1", port: 7000, username: "", password: "p@ss", db: 0 },
  ],
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
  "redis://a,b",
])("%j is no Redis URL", (text) => expect(readRedisUrl(text)).toBeNull());

const database = "postgres://app:s3cr%2Ft@db.internal:6432/relay?sslmode=require";

describe("storage with driver postgres", () => {
  test("has a schema, and prints no password", () => {
    const settings = parseSettings(
      `storage: { driver: postgres, url: "${database}" }`,
      "relay.yaml",
      {},
    );
    expect(settings.storage).toMatchObject({ driver: "postgres", schema: "relay" });
    for (const shown of [
      printSettings(settings),
      JSON.stringify(settings),
      inspect(settings, { depth: null, showHidden: true }),
    ]) {
      expect(shown).not.toContain("s3cr");
    }
    const longer = parseSettings(
      `storage: { driver: postgres, url: "postgres://app:long-s3cr%2Ft@/relay?host=/run" }`,
      "relay.yaml",
      {},
    );
    expect(createRedactor(longer).text("with long-s3cr/t and long-s3cr%2Ft")).not.toContain("s3cr");
  });

  test.each([
    ["{ driver: postgres }", "storage.url: is missing"],
    ["{ driver: postgres, url: 'http://a' }", "storage.url: is not a PostgreSQL URL"],
    [
      "{ driver: postgres, url: 'postgres://u@a/b', prefix: x }",
      "storage.prefix: unknown setting (there are: driver, path, url, schema, tls)",
    ],
    [
      "{ driver: postgres, url: 'postgres://u@a/b', schema: 'Relay-1' }",
      "storage.schema: is not a schema",
    ],
    [
      "{ driver: postgres, url: 'postgres://u@a/b' }\nbackup: { schedule: 0 3 * * * }",
      "backup.schedule: needs storage.driver sqlite; back up the database server itself, as docs/how-to/back-up-and-restore.md describes",
    ],
  ])("%s: %s", (storage, fault) => {
    expect(faultsOf(`storage: ${storage}`)).toEqual([expect.stringContaining(fault)]);
  });
});

test.each([
  [
    "postgresql://u@localhost/b",
    { host: "localhost", port: 5432, user: "u", password: "", database: "b", isEncrypted: false },
  ],
  [
    database,
    {
      host: "db.internal",
      port: 6432,
      user: "app",
      password: "s3cr/t",
      database: "relay",
      isEncrypted: true,
    },
  ],
  [
    "postgres://u:p%40ss@[::1]/b",
    { host: "::1", port: 5432, user: "u", password: "p@ss", database: "b", isEncrypted: false },
  ],
  [
    "postgres://u@/b?host=/run/pg&port=5433",
    { host: "/run/pg", port: 5433, user: "u", password: "", database: "b", isEncrypted: false },
  ],
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
