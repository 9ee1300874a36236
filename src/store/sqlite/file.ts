import { chmodSync, closeSync, existsSync, mkdirSync, openSync, readSync, realpathSync, statSync } from "node:fs";
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

/** Replaces `mkdirSync` with `recursive`, which never returns under a folder that allows no new ones (/proc). */
function makeFolder(path: string): void {
  if (existsSync(path)) return;
  makeFolder(dirname(path));
  mkdirSync(path);
}

/** SQLite truncates the write-ahead log to this size (`journal_size_limit`, open.ts). */
export const logSizeLimit = 64 * 1024 * 1024;

interface Found {
  readonly identity: string;
  readonly size: number;
}

/**
 * Watches the database file and the two files beside it. Writes to a deleted or replaced file succeed and are lost with
 * the process, and the page cache hides a truncation. Returns a check of three system calls: null, or the fault and the
 * remedy. A truncation is reported until the relay restarts.
 */
export function watchPlace(path: string, db: Database.Database): () => string | null {
  const log = `${path}-wal`;
  const identities = [path, log, `${path}-shm`].map((part) => [part, lookAt(part)?.identity] as const);
  const sizes = { file: 0, log: 0 };
  let truncated: string | null = null;

  /** A checkpoint can shrink the file. Its header then has the new size in pages. */
  function isFileWhole(size: number): boolean {
    const header = Buffer.alloc(100);
    const file = openSync(path, "r");
    try {
      if (readSync(file, header, 0, header.length, 0) < header.length) return false;
    } finally {
      closeSync(file);
    }
    const pageSize = header.readUInt16BE(16);
    return header.toString("latin1", 0, 15) === "SQLite format 3" && size >= header.readUInt32BE(28) * (pageSize === 1 ? 65_536 : pageSize);
  }

  /** A checkpoint of another program may have emptied the log. Then nothing in it is needed, and our own succeeds. */
  function isLogWhole(): boolean {
    try {
      const [{ busy, log: frames, checkpointed } = { busy: 1, log: 0, checkpointed: 0 }] = db.pragma("wal_checkpoint(PASSIVE)") as {
        busy: number;
        log: number;
        checkpointed: number;
      }[];
      return busy === 0 && frames === checkpointed;
    } catch {
      return false;
    }
  }

  function look(): string | null {
    for (const [part, identity] of identities) {
      const found = lookAt(part);
      if (found === null || found.identity !== identity)
        return `${part} was deleted or replaced while in use; put it back, or restart the relay`;
      if (part === path) {
        if (found.size < sizes.file && !isFileWhole(found.size)) return cut(part);
        sizes.file = found.size;
      } else if (part === log) {
        if (found.size < Math.min(sizes.log, logSizeLimit) && !isLogWhole()) return cut(part);
        sizes.log = found.size;
      }
    }
    return null;
  }

  function cut(part: string): string {
    truncated = `${part} was truncated while in use: committed events are lost. Stop the relay, then restore ${path} from a copy`;
    return truncated;
  }

  look();
  return () => truncated ?? look();
}

function lookAt(path: string): Found | null {
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    return found === undefined ? null : { identity: `${found.dev}:${found.ino}`, size: found.size };
  } catch {
    return null;
  }
}
