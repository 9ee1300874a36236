import { expect, test } from "vitest";
import { openRedisForReading } from "../../../src/app/open-redis.ts";
import { checkReadable, checkSchema, schemaVersion } from "../../../src/store/redis/schema.ts";
import { redisOfFile } from "../../contract/redis-of-file.ts";
import { redisSettings } from "./connection-tools.ts";

const { client, url } = redisOfFile();

test("a new prefix is marked, and passes from then on", async () => {
  const first = await checkSchema(client(), "new");
  expect(await client().get("{new}:schema")).toMatch(new RegExp(`^${schemaVersion} [0-9a-f-]{36}$`));
  expect(await checkSchema(client(), "new")).toBe(first);
  await client().del("{new}:schema");
  expect(await checkSchema(client(), "new"), "what was lost and begun anew has another name").not.toBe(first);
});

test("what an older version wrote is marked as this one's, whoever of several comes first, and keeps its name", async () => {
  const name = "0192f0c1-7a3b-7cde-8f01-23456789abcd";
  for (let older = 1; older < schemaVersion; older += 1) {
    await client().set("{older}:schema", `${older} ${name}`);
    const other = client().duplicate();
    expect(await Promise.all([checkSchema(client(), "older"), checkSchema(other, "older")])).toEqual([name, name]);
    other.disconnect();
    expect(await client().get("{older}:schema")).toBe(`${schemaVersion} ${name}`);
    expect(await checkSchema(client(), "older"), "it is not taken for another").toBe(name);
  }
});

test("the mark is written by none whose Redis takes no writes, and what it would have raised stays", async () => {
  await client().set("{kept}:schema", "1 name");
  await client().replicaof("127.0.0.1", "1");
  await expect(checkSchema(client(), "kept")).rejects.toThrow(/READONLY/);
  await client().replicaof("NO", "ONE");
  expect(await client().get("{kept}:schema")).toBe("1 name");
  expect(await checkSchema(client(), "kept")).toBe("name");
});

test("what a newer version wrote is refused in one line, and stays as it is", async () => {
  const marked = `${schemaVersion + 1} name`;
  await client().set("{newer}:schema", marked);
  await expect(checkSchema(client(), "newer")).rejects.toThrow(/^prefix newer: written by a newer version of wamid-relay/);
  expect(await client().get("{newer}:schema")).toBe(marked);
});

test("who only reads marks nothing, reads what an older version wrote, and is refused what a newer one did", async () => {
  await checkReadable(client(), "unmarked");
  expect(await client().exists("{unmarked}:schema")).toBe(0);
  for (let version = 1; version <= schemaVersion; version += 1) {
    await client().set("{read}:schema", `${version} name`);
    await checkReadable(client(), "read");
    expect(await client().get("{read}:schema")).toBe(`${version} name`);
  }
  await client().set("{read}:schema", `${schemaVersion + 1} name`);
  await expect(checkReadable(client(), "read")).rejects.toThrow(/^prefix read: written by a newer version of wamid-relay/);
  await client().set("{read}:schema", "of another program");
  await expect(checkReadable(client(), "read")).rejects.toThrow("prefix read: what stands there is not a relay's");
});

test("a command that looks into what a newer version wrote is refused, instead of misreading it", async () => {
  await client().set("{looked}:schema", `${schemaVersion + 1} name`);
  const opened = openRedisForReading({ ...redisSettings(url()), prefix: "looked" });
  await expect(opened).rejects.toThrow(/^redis:[^\n]*: prefix looked: written by a newer version of wamid-relay[^\n]*$/);
  await client().set("{looked}:schema", "1 name");
  await (await openRedisForReading({ ...redisSettings(url()), prefix: "looked" })).close();
  expect(await client().get("{looked}:schema"), "looking at an older version's is no reason to lock it out").toBe("1 name");
});

test("a mark that is no version is nobody's we know", async () => {
  for (const marked of ["of another program", "", "0 name", "1x name"]) {
    await client().set("{other}:schema", marked);
    await expect(checkSchema(client(), "other")).rejects.toThrow("prefix other: what stands there is not a relay's");
    expect(await client().get("{other}:schema")).toBe(marked);
  }
});
