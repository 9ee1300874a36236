import { closeSync, fsyncSync, openSync, statSync } from "node:fs";
import Database from "better-sqlite3";
import type { AuditProgress } from "../reading.ts";
import type { Db } from "./file.ts";
import { inSnapshot } from "./snapshot.ts";

/** What a copy holds. */
export interface Copied {
  /** When its content was read, in unix ms: it has everything that was committed before. */
  readonly at: number;
  readonly bytes: number;
}

/** Pages (4 KiB) of one step. Between steps the thread reports progress and can be ended. */
const stepPages = 512;
/** Pages after which the copy is written to the disk. One large write at the end could delay the relay's own commits. */
const syncPages = 2048;
/**
 * Copies the content of `db`, which is read-only, into the empty file `to`, and writes that to the disk. The copy needs no
 * other file beside it.
 *
 * One snapshot covers all steps. Without it, SQLite starts the copy again after each commit of the relay, and under load it
 * never ends.
 */
export async function copyStore(db: Db, to: string, progress: (at: AuditProgress) => void): Promise<Copied> {
  const at = Date.now();
  const file = openSync(to, "r+");
  let unsynced = 0;
  try {
    await inSnapshot(db, () =>
      db.backup(to, {
        progress({ totalPages, remainingPages }) {
          progress({ checked: totalPages - remainingPages, of: totalPages });
          unsynced += stepPages;
          if (unsynced >= syncPages) {
            fsyncSync(file);
            unsynced = 0;
          }
          return stepPages;
        },
      }),
    );
    const copy = new Database(to);
    try {
      // The mode of the store, WAL, would need a -wal and a -shm file beside the copy.
      copy.pragma("journal_mode = DELETE");
    } finally {
      copy.close();
    }
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  return { at, bytes: statSync(to).size };
}
