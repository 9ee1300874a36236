import { createHash } from "node:crypto";
import { statSync } from "node:fs";
import { lockFile } from "../sqlite/file.ts";
import { createNames, type Names } from "../sqlite/names.ts";
import { type Db, openForReading } from "../sqlite/open.ts";

/** The file of the embedded engine that is carried over; no relay works on it as long as it is open. */
export interface Source {
  readonly db: Db;
  readonly names: Names;
  readonly path: string;
  /** Another one once anything was written into the file. */
  readonly identity: string;
  close(): void;
}

/** Throws `StoreRefused` when there is no such file, it is another program's or older, or a relay works on it. */
export function openSource(path: string): Source {
  const db = openForReading(path);
  try {
    const holder = db.prepare<[], string>("SELECT value FROM meta WHERE key = 'holder'").pluck();
    const lock = lockFile(path, () => holder.get() ?? null);
    return {
      db,
      names: createNames(db),
      path,
      identity: identityOf(path),
      close() {
        db.close();
        lock.release();
      },
    };
  } catch (error) {
    db.close();
    throw error;
  }
}

/** Every write goes to the write-ahead log or to the file; reading leaves both as they are. */
function identityOf(path: string): string {
  const parts = [path, `${path}-wal`].map((part) => {
    const found = statSync(part, { throwIfNoEntry: false });
    // A log that is empty is as good as none.
    return found === undefined || found.size === 0 ? null : [found.size, found.mtimeMs];
  });
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 16);
}
