import { closeSync, fsyncSync, openSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import Database from "better-sqlite3";
import type { AuditProgress } from "../../model/audit.ts";
import { audit } from "../audit/audit.ts";
import type { AuditOrder } from "../port.ts";
import { tables } from "../schema/tables.ts";
import type { Work } from "../sql/ops.ts";
import { type Db, damageOf, emptyLog, sizeOf } from "./file.ts";

export interface ThreadParts {
  readonly db: Db;
  readonly read: <T>(work: Work<T>) => Promise<T>;
  readonly progress: (at: AuditProgress) => void;
}

export function wholeReads({ db, read, progress }: ThreadParts) {
  return {
    audit: (order: AuditOrder) => inSnapshot(db, () => read(audit(order, progress))),
    copy: (to: string) => copyStore(db, to, progress),
    damage: () => findDamage(db),
  };
}
export type WholeReads = ReturnType<typeof wholeReads>;

/** A thread that is ended finishes its statement first. */
async function findDamage(db: Db): Promise<string | null> {
  for (const { name } of tables) {
    const damage = damageOf(db, name);
    if (damage !== null) return damage;
    await wait(0);
  }
  return null;
}

const stepPages = 512;
/** One large write at the end could delay the relay's own commits. */
const syncPages = 2048;
/**
 * Copies `db`, which is read-only, into the empty file `to`, in one snapshot: without it, SQLite
 * starts again after each commit of the relay, and under load never ends. The copy has everything
 * that was committed before `at`.
 */
export async function copyStore(db: Db, to: string, progress: (at: AuditProgress) => void) {
  const at = Date.now();
  const file = openSync(to, "r+");
  let unsynced = 0;
  try {
    await inSnapshot(db, () =>
      db.backup(to, {
        progress({ totalPages, remainingPages }) {
          progress({ checked: totalPages - remainingPages, of: totalPages });
          unsynced += stepPages;
          if (unsynced >= syncPages) {
            fsyncSync(file);
            unsynced = 0;
          }
          return stepPages;
        },
      }),
    );
    const copy = new Database(to);
    try {
      // WAL would need two files beside the copy.
      copy.pragma("journal_mode = DELETE");
    } finally {
      copy.close();
    }
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  return { at, bytes: sizeOf(to) };
}

const largeLogBytes = 8 * 1024 * 1024;

/**
 * Reads see what was committed when the transaction began. Meanwhile the write-ahead log grows,
 * because the snapshot needs the older pages.
 */
async function inSnapshot<T>(db: Db, read: () => Promise<T>): Promise<T> {
  db.exec("BEGIN");
  try {
    // The first read fixes the snapshot.
    db.prepare("SELECT count(*) FROM sqlite_schema").get();
    return await read();
  } finally {
    // After some errors SQLite has already rolled back.
    if (db.inTransaction) db.exec("COMMIT");
    // Otherwise the relay does it within its next commit, and stalls.
    if (sizeOf(`${db.name}-wal`) >= largeLogBytes) emptyLog(db.name, "PASSIVE", 0);
  }
}
