import { closeSync, existsSync, openSync, readSync, statSync } from "node:fs";
import type Database from "better-sqlite3";
import { faultCode } from "../port.ts";

/** Null: there is only its message. */
export function reasonOf(error: unknown): string | null {
  const code = faultCode(error);
  const known = Object.keys(reasons).find((prefix) => code.startsWith(prefix));
  return known === undefined ? null : `${reasons[known]} (${code})`;
}

export const reasons: Record<string, string> = {
  SQLITE_NOTADB: "is not a SQLite database; move it away or give storage.path another file",
  SQLITE_CORRUPT:
    "is damaged; stop the relay, and restore it from a copy, or recover it with sqlite3's .recover",
  SQLITE_CANTOPEN:
    "cannot be opened; check that its folder exists and that this user may write there",
  SQLITE_READONLY:
    "is read-only for this user, or its -wal or -shm beside it is; check their permissions and the file system",
  SQLITE_FULL: "cannot grow: the disk is full",
  SQLITE_BUSY: "is locked by another process",
  SQLITE_IOERR: "cannot be read or written (input/output error); check the disk",
};

/**
 * Faults of the disk, the file or the machine, with their extended codes. All others are of one
 * statement or its values.
 */
const storageFault =
  /^SQLITE_(?:FULL|IOERR|READONLY|BUSY|LOCKED|CORRUPT|NOTADB|CANTOPEN|NOMEM|PERM|AUTH|PROTOCOL|NOLFS|INTERNAL|INTERRUPT|SCHEMA)(?:_|$)/;
const damage = /^SQLITE_(?:CORRUPT|NOTADB)(?:_|$)/;

export const isStorageFault = (error: unknown): boolean => storageFault.test(faultCode(error));

export const isDamage = (error: unknown): boolean => damage.test(faultCode(error));

/** Rejected promises are translated already. */
export function translateErrors<T>(port: T, translate: (error: unknown) => unknown): T {
  if (typeof port === "function") {
    return ((...args: unknown[]): unknown => {
      try {
        const result: unknown = port(...args);
        return typeof result === "function" ? translateErrors(result, translate) : result;
      } catch (error) {
        throw translate(error);
      }
    }) as T;
  }
  if (port === null || typeof port !== "object" || Object.getPrototypeOf(port) !== Object.prototype)
    return port;
  return Object.fromEntries(
    Object.entries(port).map(([name, part]) => [name, translateErrors(part, translate)]),
  ) as T;
}

export const logSizeLimit = 64 * 1024 * 1024;

/**
 * Writes to a deleted or replaced file succeed and are lost with the process, and the page cache
 * hides a truncation. The check costs three system calls and returns null, or fault and remedy; it
 * reports a truncation until a restart.
 */
export function watchPlace(path: string, db: Database.Database): () => string | null {
  const log = `${path}-wal`;
  const identities = [path, log, `${path}-shm`].map(
    (part) => [part, lookAt(part)?.identity] as const,
  );
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
    return (
      header.toString("latin1", 0, 15) === "SQLite format 3" &&
      size >= header.readUInt32BE(28) * (pageSize === 1 ? 65_536 : pageSize)
    );
  }

  /**
   * A checkpoint of another program may have emptied the log. Then nothing in it is needed, and our
   * own succeeds.
   */
  function isLogWhole(): boolean {
    try {
      const [{ busy, log: frames, checkpointed } = { busy: 1, log: 0, checkpointed: 0 }] =
        db.pragma("wal_checkpoint(PASSIVE)") as {
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
      if (found === null && isHidden(part)) return hiddenText(part);
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

export function isMissing(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) === undefined;
  } catch {
    return false;
  }
}

/** There is something, or this user may not know. `existsSync` is false for the latter too. */
export const isHidden = (path: string): boolean => !isMissing(path) && !existsSync(path);

export const hiddenText = (path: string): string =>
  `${path} cannot be reached; check the rights of its folder`;

function lookAt(path: string) {
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    return found === undefined ? null : { identity: `${found.dev}:${found.ino}`, size: found.size };
  } catch {
    return null;
  }
}
