import { statSync } from "node:fs";
import Database from "better-sqlite3";
import type { Db } from "./file.ts";

/** A larger write-ahead log is emptied after a snapshot. */
const largeLogBytes = 8 * 1024 * 1024;

/**
 * Runs reads in one transaction, which sees what was committed when it began. Meanwhile the write-ahead log grows, because
 * the snapshot needs the older pages.
 */
export async function inSnapshot<T>(db: Db, read: () => Promise<T>): Promise<T> {
  db.exec("BEGIN");
  try {
    // The first read fixes the snapshot.
    db.prepare("SELECT count(*) FROM sqlite_schema").get();
    return await read();
  } finally {
    // After some errors SQLite has already rolled back.
    if (db.inTransaction) db.exec("COMMIT");
    emptyLog(db.name);
  }
}

/** Moves what the log gathered during a snapshot into the file. Otherwise the relay does it within its next commit, and stalls. */
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
