import { closeSync, fsyncSync, openSync, statSync } from "node:fs";
import Database from "better-sqlite3";
import type { AuditProgress } from "../reading.ts";
import type { Db } from "./file.ts";

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
/** A larger write-ahead log is emptied here after the copy. */
const largeLogBytes = 8 * 1024 * 1024;

/**
 * Copies the content of `db`, which is read-only, into the empty file `to`, and writes that to the disk. The copy needs no
 * other file beside it.
 *
 * One transaction covers all steps. Without it, SQLite starts the copy again after each commit of the relay, and under load
 * it never ends. Meanwhile the write-ahead log grows, because this snapshot needs the older pages.
 */
export async function copyStore(db: Db, to: string, progress: (at: AuditProgress) => void): Promise<Copied> {
  const at = Date.now();
  const file = openSync(to, "r+");
  let unsynced = 0;
  try {
    db.exec("BEGIN");
    try {
      // The first read fixes the snapshot.
      db.prepare("SELECT count(*) FROM sqlite_schema").get();
      await db.backup(to, {
        progress({ totalPages, remainingPages }) {
          progress({ checked: totalPages - remainingPages, of: totalPages });
          unsynced += stepPages;
          if (unsynced >= syncPages) {
            fsyncSync(file);
            unsynced = 0;
          }
          return stepPages;
        },
      });
    } finally {
      db.exec("COMMIT");
    }
    emptyLog(db.name);
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

/** Moves what the log gathered during the copy into the file. Otherwise the relay does it within its next commit, and stalls. */
function emptyLog(path: string): void {
  if ((statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) < largeLogBytes) return;
  try {
    const db = new Database(path, { fileMustExist: true, timeout: 0 });
    try {
      db.pragma("wal_checkpoint(PASSIVE)");
    } finally {
      db.close();
    }
  } catch {
    // This user may only read the file. The relay does it then.
  }
}
