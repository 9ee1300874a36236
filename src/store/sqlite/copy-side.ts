import { randomUUID } from "node:crypto";
import type { CopySource, CopyTarget } from "../copy.ts";
import { lockFile, openBeside, openForWriting } from "./file.ts";
import { createSqliteRunner } from "./runner.ts";

export function openSqliteTarget(path: string, holder: string): CopyTarget {
  const lock = lockFile(path);
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

/** A relay may keep its transactions close together. */
const waitsMs = 10_000;

export function openSqliteSource(path: string): CopySource {
  const db = openBeside(path, waitsMs);
  const runner = createSqliteRunner(db);
  return {
    engine: "sqlite",
    name: path,
    read: (work) => runner.read(work),
    freeze(mark) {
      // The relay cannot write until this, or the end of this process, releases it.
      db.exec("BEGIN IMMEDIATE");
      runner.now(mark());
      return { end: () => void db.exec("COMMIT") };
    },
    async close() {
      db.close();
    },
  };
}
