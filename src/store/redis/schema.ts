import { randomUUID } from "node:crypto";
import { StoreRefused } from "../port.ts";
import type { Redis } from "./client.ts";
import { keysOf } from "./keys.ts";
import { rowJson } from "./rows.ts";
import { readScript } from "./script.ts";

/**
 * How this version stores things (keys.ts). A change that an older version would misread raises it: 2 knows events that
 * are only accepted.
 */
export const schemaVersion = 2;

const mark = readScript("schema");

/**
 * Marks the prefix as a relay's, the first time, and gives the name of what stands there: another one means that Redis has
 * lost what it had. What an older version wrote is this one's from then on, and the older one refuses it. Throws
 * `StoreRefused` when a newer version wrote there, or something that is no relay.
 */
export async function checkSchema(redis: Redis, prefix: string): Promise<string> {
  const key = keysOf(prefix).of("schema");
  // Read first: a Redis that takes no writes (full, a replica) refuses the script whole, and what it has can be read.
  const found = await redis.get(key);
  const isMarked = found?.startsWith(`${schemaVersion} `) === true;
  const marked = isMarked ? found : ((await mark.run(redis, key, [String(schemaVersion), randomUUID()])) as string);
  return nameIn(marked, prefix);
}

/** The same for one who only reads: marks nothing, and raises nothing. What an older version wrote can be read. */
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

/** How far the migration of a file into these keys has come: the row `migration`, which stays when it has ended. */
export interface MigrationRow {
  /** What the file was when it began (store/migrate/source.ts). */
  readonly file: string;
  /** Where it was. */
  readonly path: string;
  /** Unix ms. */
  readonly startedAt: number;
  readonly finishedAt: number | null;
  /** The step under way, from 0 on, and the last row of it that is here. */
  readonly step: number;
  readonly after: number;
}

export const migrationRowName = "migration";

/** Takes a row with its version. */
export const readMigrationRow = (row: string): MigrationRow => JSON.parse(rowJson(row)) as MigrationRow;

/**
 * Throws `StoreRefused` while a migration into these keys has not ended: events that came in meanwhile could be known to
 * the file already, and be planned a second time.
 */
export async function refuseUnfinished(redis: Redis, prefix: string): Promise<void> {
  const row = await redis.get(keysOf(prefix).of(migrationRowName));
  if (row === null) return;
  const { path, finishedAt } = readMigrationRow(row);
  if (finishedAt !== null) return;
  throw new StoreRefused(`the migration of ${path} to prefix ${prefix} has not ended; run the same "wamid-relay migrate" again first`);
}
