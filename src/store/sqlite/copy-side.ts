import { randomUUID } from "node:crypto";
import type { OpenSide } from "../copy.ts";
import { holderOf, openForWriting } from "./file.ts";
import { lockFile } from "./lock.ts";
import { createSqliteRunner } from "./runner.ts";

/** A file as the source or the target of a copy. No relay can open it meanwhile. */
export function openSqliteSide(path: string, holder: string): OpenSide {
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
