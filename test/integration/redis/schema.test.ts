import { Redis as Client } from "ioredis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { checkSchema, schemaVersion } from "../../../src/store/redis/schema-mark.ts";
import { type Redis, startRedis } from "../../setup/redis.ts";

let redis: Redis;
let client: Client;

beforeAll(async () => {
  redis = await startRedis();
  client = new Client(redis.url);
});
afterAll(async () => {
  client.disconnect();
  await redis.stop();
});

test("a new prefix is marked, and passes from then on", async () => {
  const first = await checkSchema(client, "new");
  expect(await client.get("{new}:schema")).toMatch(new RegExp(`^${schemaVersion} [0-9a-f-]{36}$`));
  expect(await checkSchema(client, "new")).toBe(first);
  await client.del("{new}:schema");
  expect(await checkSchema(client, "new"), "what was lost and begun anew has another name").not.toBe(first);
});

test("what a newer version wrote is refused in one line, and stays as it is", async () => {
  await client.set("{newer}:schema", String(schemaVersion + 1));
  await expect(checkSchema(client, "newer")).rejects.toThrow(/^prefix newer: written by a newer version of wamid-relay/);
  expect(await client.get("{newer}:schema")).toBe(String(schemaVersion + 1));
});

test("a mark that is no version is nobody's we know", async () => {
  await client.set("{other}:schema", "of another program");
  await expect(checkSchema(client, "other")).rejects.toThrow("prefix other: what stands there is not a relay's");
});
