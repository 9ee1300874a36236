import { chmodSync, existsSync, mkdirSync, realpathSync } from "node:fs";
import { dirname } from "node:path";
import Database from "better-sqlite3";
import { StoreRefused } from "../store-error.ts";

/**
 * Makes this process the only relay on the file, until it is released or the process ends in any way.
 *
 * The lock is SQLite's own exclusive lock on an empty database beside the store: the operating system
 * drops it at a crash, so that no stale lock file ever needs deleting, and the store itself stays open
 * for readers. `holder` is asked who has it, for the message.
 */
export function lockFile(storePath: string, holder: () => string | null): { release(): void } {
  let path = `${storePath}.lock`;
  let db: Database.Database;
  try {
    makeFolder(dirname(path));
    path = lockPath(storePath);
    db = new Database(path, { timeout: 0 });
    // Whoever may read it could lock it too, and keep the relay from starting.
    chmodSync(path, 0o600);
  } catch (error) {
    const why = (error as Error).message;
    throw new StoreRefused(`${path} cannot be opened (${why}); check that its folder exists and that this user may write there`, {
      cause: error,
    });
  }
  try {
    // Nothing is ever written in it, so no journal file comes and goes.
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

/**
 * Whether a relay holds the store, without taking it: a reader's lock for a moment. Null when that cannot be
 * told (the lock file may not be read).
 */
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

/** Beside the file itself: two links to one file are one store. */
function lockPath(storePath: string): string {
  return `${existsSync(storePath) ? realpathSync(storePath) : storePath}.lock`;
}

/** Not `mkdirSync` with `recursive`: that one never returns where a folder cannot be made under an existing one (/proc). */
function makeFolder(path: string): void {
  if (existsSync(path)) return;
  makeFolder(dirname(path));
  mkdirSync(path);
}
