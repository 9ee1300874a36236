import { randomUUID } from "node:crypto";
import { StoreRefused } from "../port.ts";
import type { Redis } from "./client.ts";
import { keysOf } from "./keys.ts";
import { rowJson } from "./rows.ts";
import { readScript } from "./script.ts";

/**
 * Version of the stored format (keys.ts). Raise it with a change that an older version would misread; 2 added events that
 * are only accepted.
 */
export const schemaVersion = 2;

const mark = readScript("schema");

/**
 * Marks a new prefix as a relay's, and returns the name of its data; a different name later means that Redis lost them.
 * Data of an older version are raised to this one, which the older version then refuses. Throws `StoreRefused` for data of
 * a newer version or of another program.
 */
export async function checkSchema(redis: Redis, prefix: string): Promise<string> {
  const key = keysOf(prefix).of("schema");
  // Read first: a Redis that takes no writes (full, a replica) refuses the script, and its data can still be read.
  const found = await redis.get(key);
  const isMarked = found?.startsWith(`${schemaVersion} `) === true;
  const marked = isMarked ? found : ((await mark.run(redis, key, [String(schemaVersion), randomUUID()])) as string);
  return nameIn(marked, prefix);
}

/** The same check for readers, which write nothing and can read data of an older version. */
export async function checkReadable(redis: Redis, prefix: string): Promise<void> {
  const marked = await redis.get(keysOf(prefix).of("schema"));
  if (marked !== null) nameIn(marked, prefix);
}

function nameIn(marked: string, prefix: string): string {
  const [version = "", name = ""] = marked.split(" ", 2);
  const schema = Number(version);
  if (!Number.isInteger(schema) || schema < 1) throw new StoreRefused(`prefix ${prefix}: what stands there is not a relay's`);
  if (schema > schemaVersion) {
    throw new StoreRefused(
      `prefix ${prefix}: written by a newer version of wamid-relay (schema ${schema}; this one knows ${schemaVersion}); update this process`,
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
