import { StoreRefused } from "../port.ts";
import type { Redis } from "./client.ts";
import { keysOf } from "./keys.ts";
import { rowJson } from "./transact.ts";

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
