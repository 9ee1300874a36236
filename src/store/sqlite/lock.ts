import { chmodSync, existsSync, mkdirSync, realpathSync } from "node:fs";
import { dirname } from "node:path";
import Database from "better-sqlite3";
import { StoreRefused } from "../port.ts";

/**
 * Makes this process the only relay on the file until `release` or the end of the process.
 *
 * It takes SQLite's exclusive lock on an empty database beside the store. The operating system drops it after a crash, so
 * no lock file gets stale, and readers can still open the store. `holder` names the other process for the error.
 */
export function lockFile(storePath: string, holder: () => string | null): { release(): void } {
  let path = `${storePath}.lock`;
  let db: Database.Database;
  try {
    makeFolder(dirname(path));
    path = lockPath(storePath);
    db = new Database(path, { timeout: 0 });
    // Any user who may read it could lock it and keep the relay from starting.
    chmodSync(path, 0o600);
  } catch (error) {
    const why = (error as Error).message;
    throw new StoreRefused(`${path} cannot be opened (${why}); check that its folder exists and that this user may write there`, {
      cause: error,
    });
  }
  try {
    // Nothing is written to it, so it needs no journal file.
    db.pragma("journal_mode = MEMORY");
    db.exec("BEGIN EXCLUSIVE");
    return { release: () => db.close() };
  } catch (error) {
    db.close();
    const code = (error as { code?: string }).code ?? "";
    if (code.startsWith("SQLITE_BUSY")) {
      const who = holder();
      throw new StoreRefused(
        `${storePath} is in use by another wamid-relay process${who === null ? "" : ` (${who})`}; only one may write it`,
        { cause: error },
      );
    }
    throw new StoreRefused(`${path} cannot be locked: ${(error as Error).message}`, { cause: error });
  }
}

/** Whether a relay holds the store. Takes a reader's lock for a moment. Null: the lock file is not readable. */
export function isLocked(storePath: string): boolean | null {
  if (!existsSync(storePath)) return false;
  try {
    const path = lockPath(storePath);
    if (!existsSync(path)) return false;
    const db = new Database(path, { readonly: true, timeout: 0 });
    try {
      db.prepare("SELECT count(*) FROM sqlite_schema").get();
      return false;
    } finally {
      db.close();
    }
  } catch (error) {
    return ((error as { code?: string }).code ?? "").startsWith("SQLITE_BUSY") ? true : null;
  }
}

/** Beside the real file, because two links to one file are one store. */
function lockPath(storePath: string): string {
  return `${existsSync(storePath) ? realpathSync(storePath) : storePath}.lock`;
}

/** Replaces `mkdir` with `recursive`, which never returns under a folder that allows no new ones (/proc). */
export function makeFolder(path: string, mode?: number): void {
  if (existsSync(path)) return;
  makeFolder(dirname(path), mode);
  mkdirSync(path, { mode });
}
