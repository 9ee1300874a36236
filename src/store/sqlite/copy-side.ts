import { randomUUID } from "node:crypto";
import type { CopySource, CopyTarget } from "../copy.ts";
import { holderOf, lockFile, openBeside, openForWriting } from "./file.ts";
import { createSqliteRunner } from "./runner.ts";

/** A file as the target of a copy. No relay can open it meanwhile. */
export function openSqliteTarget(path: string, holder: string): CopyTarget {
  const lock = lockFile(path, () => holderOf(path));
  try {
    const db = openForWriting(path, holder, randomUUID());
    const runner = createSqliteRunner(db);
    return {
      engine: "sqlite",
      name: path,
      read: (work) => runner.read(work),
      write: (make) => runner.transact(make()),
      async refuseUsed() {},
      async close() {
        db.close();
        lock.release();
      },
    };
  } catch (error) {
    lock.release();
    throw error;
  }
}

/** How long a relay may keep its transactions so close together that no other one comes between them. */
const waitsMs = 10_000;

/** A file as the source of a copy, which a relay may use. */
export function openSqliteSource(path: string): CopySource {
  const db = openBeside(path, waitsMs);
  const runner = createSqliteRunner(db);
  return {
    engine: "sqlite",
    name: path,
    read: (work) => runner.read(work),
    freeze(mark) {
      // The file's own lock: the relay cannot write until it is released, and the end of this process releases it.
      db.exec("BEGIN IMMEDIATE");
      runner.now(mark());
      return { end: () => void db.exec("COMMIT") };
    },
    async close() {
      db.close();
    },
  };
}
