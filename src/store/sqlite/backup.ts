import { chmodSync, closeSync, existsSync, fsyncSync, openSync, readdirSync, realpathSync, renameSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import Database from "better-sqlite3";
import type { AuditReport } from "../../model/audit.ts";
import { fileTime } from "../../model/units.ts";
import { StoreRefused } from "../port.ts";
import type { Backup } from "../reading.ts";
import { runAudit } from "./audit.ts";
import { type Db, openForReading } from "./file.ts";
import { holderOf, lockFile, makeFolder } from "./lock.ts";

export interface BackupOptions {
  /** Replaces an existing file. */
  readonly force?: boolean;
  /** `part` of the step is done, from 0 to 1. */
  readonly progress?: (part: number, text: string) => void;
}

/** A step reads so many pages, a few milliseconds of work. */
const stepPages = 2_000;
const mostOffenders = 100;
const partial = ".partial";

/**
 * Copies the store to `target` beside a relay that writes to it. The copy is one file with everything committed before the
 * start. It is checked and audited, and gets its name only then. Throws {@link StoreRefused}.
 */
export async function backUp(source: string, target: string, { force = false, progress = () => {} }: BackupOptions = {}): Promise<Backup> {
  const startedAt = performance.now();
  if (existsSync(target)) {
    if (existsSync(source) && realpathSync(source) === realpathSync(target))
      throw new StoreRefused(`${target} is the store itself; give the backup another name`);
    if (!force) throw new StoreRefused(`${target} already exists; give another name, or --force to replace it`);
  }
  const copy = await copyChecked(source, target, progress);
  renameSync(copy.path, target);
  syncFolder(target);
  return { file: target, bytes: copy.bytes, audit: copy.audit, tookMs: performance.now() - startedAt };
}

export interface Restored extends Backup {
  /** Where the store that was there is now; null: there was none. */
  readonly replaced: string | null;
}

/**
 * Puts a backup in place of the store at `target`, which no relay may hold. With `force` an existing store is renamed, with
 * its write-ahead log. Throws {@link StoreRefused}.
 */
export async function restore(
  backup: string,
  target: string,
  now: Date,
  { force = false, progress }: BackupOptions = {},
): Promise<Restored> {
  const startedAt = performance.now();
  if (!existsSync(backup)) throw new StoreRefused(`${backup} not found`);
  const lock = lockFile(target, () => holderOf(target));
  try {
    if (existsSync(target)) {
      if (realpathSync(backup) === realpathSync(target)) throw new StoreRefused(`${backup} is the store itself`);
      if (!force) throw new StoreRefused(`${target} already has a store; --force renames it and restores the backup`);
    }
    const copy = await copyChecked(backup, target, progress ?? (() => {}));
    const replaced = existsSync(target) ? `${target}.replaced-${fileTime(now)}` : null;
    // The log goes with its file: SQLite would apply a log that is left behind to the restored file.
    for (const end of ["-wal", "-shm", ""]) {
      if (replaced !== null && existsSync(`${target}${end}`)) renameSync(`${target}${end}`, `${replaced}${end}`);
      else rmSync(`${target}${end}`, { force: true });
    }
    renameSync(copy.path, target);
    syncFolder(target);
    return { file: target, bytes: copy.bytes, audit: copy.audit, tookMs: performance.now() - startedAt, replaced };
  } finally {
    lock.release();
  }
}

/** Removes what a killed process left of copies to this file. */
function removePartial(target: string): void {
  const folder = dirname(target);
  const start = `${basename(target)}${partial}`;
  if (!existsSync(folder)) return;
  for (const file of readdirSync(folder)) if (file.startsWith(start)) rmSync(join(folder, file), { force: true });
}

async function copyChecked(
  source: string,
  target: string,
  progress: (part: number, text: string) => void,
): Promise<{ readonly path: string; readonly bytes: number; readonly audit: AuditReport }> {
  const path = `${target}${partial}`;
  try {
    makeFolder(dirname(target), 0o700);
    removePartial(target);
    await copyPages(source, path, progress);
    const audit = await check(path, progress);
    const file = openSync(path, "r+");
    fsyncSync(file);
    closeSync(file);
    return { path, bytes: statSync(path).size, audit };
  } catch (error) {
    if (existsSync(path)) removePartial(target);
    const { code = "", message } = error as { code?: string; message: string };
    if (error instanceof StoreRefused || !/^(SQLITE_|E[A-Z]+$)/.test(code)) throw error;
    throw new StoreRefused(`${source} cannot be copied to ${target}: ${message}`, { cause: error });
  }
}

async function copyPages(source: string, path: string, progress: (part: number, text: string) => void): Promise<void> {
  const db = openForReading(source);
  try {
    // Bodies contain phone numbers, so the file is private before anything is in it.
    closeSync(openSync(path, "wx", 0o600));
    // The open transaction keeps one state in view. Without it SQLite starts again after each commit of the relay.
    db.exec("BEGIN");
    db.prepare("SELECT count(*) FROM sqlite_schema").get();
    await db.backup(path, {
      progress({ totalPages, remainingPages }) {
        progress(totalPages === 0 ? 0 : 1 - remainingPages / totalPages, "copying");
        return stepPages;
      },
    });
  } finally {
    db.close();
  }
  const copy = new Database(path, { fileMustExist: true });
  try {
    // Without a write-ahead log the copy is one file.
    copy.pragma("journal_mode = DELETE");
  } finally {
    copy.close();
  }
  chmodSync(path, 0o600);
}

async function check(path: string, progress: (part: number, text: string) => void): Promise<AuditReport> {
  const db: Db = openForReading(path);
  try {
    progress(0, "checking the copy");
    const found = db.pragma("integrity_check(1)", { simple: true });
    if (found !== "ok")
      throw new StoreRefused(`the copy is damaged, as the original may be: ${found}; "wamid-relay doctor --deep" checks it`);
    const steps = runAudit(db, { now: Date.now(), isRunning: false, mostOffenders });
    for (;;) {
      const step = steps.next();
      if (step.done === true) return step.value;
      const { checked, of } = step.value;
      progress(of === 0 ? 1 : checked / of, "auditing the copy");
      await new Promise(setImmediate);
    }
  } finally {
    db.close();
  }
}

/** A rename is durable once its folder is. */
function syncFolder(path: string): void {
  // Windows cannot open folders.
  if (process.platform === "win32") return;
  const folder = openSync(dirname(path), "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
