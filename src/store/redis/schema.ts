import { randomUUID } from "node:crypto";
import { StoreRefused } from "../port.ts";
import type { Redis } from "./client.ts";
import { type Keys, keysOf } from "./keys.ts";
import { rowJson } from "./rows.ts";

/** Version of the stored format (keys.ts). Raise it with a change that an older version would misread. */
export const schemaVersion = 2;

/**
 * Marks a new prefix as a relay's, and returns the name of its data; a different name later means that Redis lost them.
 * Throws `StoreRefused` for data of a newer version or of another program.
 */
export async function checkSchema(redis: Redis, prefix: string): Promise<string> {
  const key = keysOf(prefix).of("schema");
  // Read first: a Redis that takes no writes (full, a replica) refuses SET, and its data can still be read.
  const found = await redis.get(key);
  if (found !== null) return nameIn(found, prefix);
  const mark = `${schemaVersion} ${randomUUID()}`;
  return nameIn((await redis.set(key, mark, "NX", "GET")) ?? mark, prefix);
}

/** The same check for readers, which write nothing. */
export async function checkReadable(redis: Redis, prefix: string): Promise<void> {
  const found = await redis.get(keysOf(prefix).of("schema"));
  if (found !== null) nameIn(found, prefix);
}

/** The name of the data under these keys; null: no relay has used them yet. */
export async function readDataId(redis: Redis, keys: Keys): Promise<string | null> {
  return (await redis.get(keys.of("schema")))?.split(" ")[1] ?? null;
}

function nameIn(mark: string, prefix: string): string {
  const [, version, name] = /^([1-9]\d*) (.+)$/.exec(mark) ?? [];
  if (version === undefined || name === undefined) throw new StoreRefused(`prefix ${prefix}: its "schema" key is not from wamid-relay`);
  if (Number(version) > schemaVersion) {
    throw new StoreRefused(
      `prefix ${prefix}: written by a newer version of wamid-relay (schema ${version}; this one knows ${schemaVersion}); update this process`,
    );
  }
  return name;
}

/** Progress of the migration of a database file into these keys, in the row `migration`, which stays when it is finished. */
export interface MigrationRow {
  /** Identity of the file at the start (store/migrate/source.ts). */
  readonly file: string;
  /** Path of the file. */
  readonly path: string;
  /** Unix ms. */
  readonly startedAt: number;
  readonly finishedAt: number | null;
  /** The current step, from 0, and its last copied row. */
  readonly step: number;
  readonly after: number;
}

export const migrationRowName = "migration";

/** Takes a row with its version. */
export const readMigrationRow = (row: string): MigrationRow => JSON.parse(rowJson(row)) as MigrationRow;

/**
 * Throws `StoreRefused` while a migration into these keys is unfinished: events accepted now could already be in the file,
 * and would be planned a second time.
 */
export async function refuseUnfinished(redis: Redis, prefix: string): Promise<void> {
  const row = await redis.get(keysOf(prefix).of(migrationRowName));
  if (row === null) return;
  const { path, finishedAt } = readMigrationRow(row);
  if (finishedAt !== null) return;
  throw new StoreRefused(`the migration of ${path} to prefix ${prefix} has not ended; run the same "wamid-relay migrate" again first`);
}
