import { expect, test } from "vitest";
import { openRedisForReading } from "../../../src/app/open-redis.ts";
import { checkReadable, checkSchema, schemaVersion } from "../../../src/store/redis/schema.ts";
import { redisOfFile } from "../../contract/redis-of-file.ts";
import { redisSettings } from "./connection-tools.ts";

const { client, url } = redisOfFile();

test("marks a new prefix once", async () => {
  const other = client().duplicate();
  const names = await Promise.all([checkSchema(client(), "new"), checkSchema(other, "new")]);
  other.disconnect();
  const name = names[0];
  expect(names[1]).toBe(name);
  expect(await client().get("{new}:schema")).toBe(`${schemaVersion} ${name}`);
  expect(name).toMatch(/^[0-9a-f-]{36}$/);
  await client().del("{new}:schema");
  expect(await checkSchema(client(), "new"), "data that were lost have another name").not.toBe(name);
});

test("reads the mark of a Redis that takes no writes, and does not mark a new prefix there", async () => {
  await client().set("{kept}:schema", "1 name");
  await client().replicaof("127.0.0.1", "1");
  expect(await checkSchema(client(), "kept")).toBe("name");
  await expect(checkSchema(client(), "unmarked")).rejects.toThrow(/READONLY/);
  await client().replicaof("NO", "ONE");
  expect(await client().exists("{unmarked}:schema")).toBe(0);
});

test("refuses data of a newer version in one line, and leaves the mark", async () => {
  const marked = `${schemaVersion + 1} name`;
  await client().set("{newer}:schema", marked);
  await expect(checkSchema(client(), "newer")).rejects.toThrow(/^prefix newer: written by a newer version of wamid-relay/);
  expect(await client().get("{newer}:schema")).toBe(marked);
});

test("a reader marks nothing, and refuses data of a newer version or of another program", async () => {
  await checkReadable(client(), "unmarked");
  expect(await client().exists("{unmarked}:schema")).toBe(0);
  await client().set("{read}:schema", `${schemaVersion} name`);
  await checkReadable(client(), "read");
  await client().set("{read}:schema", `${schemaVersion + 1} name`);
  await expect(checkReadable(client(), "read")).rejects.toThrow(/^prefix read: written by a newer version of wamid-relay/);
  await client().set("{read}:schema", "of another program");
  await expect(checkReadable(client(), "read")).rejects.toThrow('prefix read: its "schema" key is not from wamid-relay');
});

test("a command that reads data of a newer version is refused", async () => {
  await client().set("{looked}:schema", `${schemaVersion + 1} name`);
  const opened = openRedisForReading({ ...redisSettings(url()), prefix: "looked" });
  await expect(opened).rejects.toThrow(/^redis:[^\n]*: prefix looked: written by a newer version of wamid-relay[^\n]*$/);
});

test("refuses a mark without a version, and leaves it", async () => {
  for (const marked of ["of another program", "", "0 name", "1x name", "1"]) {
    await client().set("{other}:schema", marked);
    await expect(checkSchema(client(), "other")).rejects.toThrow('prefix other: its "schema" key is not from wamid-relay');
    expect(await client().get("{other}:schema")).toBe(marked);
  }
});
