import { closeSync, openSync, readSync, statSync } from "node:fs";
import type { Db } from "./open.ts";

/** Beyond this SQLite cuts the write-ahead log itself (`journal_size_limit`, open.ts). */
export const logSizeLimit = 64 * 1024 * 1024;

interface Found {
  readonly identity: string;
  readonly size: number;
}

/**
 * Watches the database file and the two files beside it. Deleted or replaced files still take writes through the handles
 * of a running process and lose them with it, and of a truncated one the page cache hides the loss. Returns a check, three
 * system calls long: null, or what is wrong and what to do. A truncated file stays wrong until the relay is started anew.
 */
export function watchPlace(path: string, db: Db): () => string | null {
  const log = `${path}-wal`;
  const identities = [path, log, `${path}-shm`].map((part) => [part, lookAt(part)?.identity] as const);
  const sizes = { file: 0, log: 0 };
  let truncated: string | null = null;

  /** A checkpoint can shrink the file. The header of what it leaves has the size in pages. */
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

  /** Another program may have emptied the log by a checkpoint of its own. Then nothing in it is needed, and ours succeeds. */
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
