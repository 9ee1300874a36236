import { randomUUID } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, realpathSync, statSync } from "node:fs";
import { dirname } from "node:path";
import Database from "better-sqlite3";
import { faultCode, StoreRefused } from "../port.ts";
import { ddl, schemaVersion } from "../schema/ddl.ts";
import { tables } from "../schema/tables.ts";
import { hiddenText, isHidden, isMissing, logSizeLimit, reasonOf, reasons } from "./faults.ts";

export type Db = Database.Database;

/** "wam2" in ASCII. Another program's database is never written to. */
const applicationId = 0x77616d32;
/** "wamd" of 0.x, and "wam1" of 1.x before its release. */
const formerIds = new Map([
  [0x77616d64, "0.x, which 1.x cannot read"],
  [0x77616d31, "1.x before its release, which this version cannot read"],
]);

export function tune(db: Db, fresh: boolean): void {
  // Works only while the file is empty (createGiveBack).
  if (fresh) db.pragma("auto_vacuum = INCREMENTAL");
  db.pragma("journal_mode = WAL");
  // better-sqlite3's default in WAL mode, NORMAL, does not make acknowledged events durable.
  db.pragma("synchronous = FULL");
  // In pages. The fewer checkpoints, the more events change a page before it is written.
  db.pragma("wal_autocheckpoint = 4000");
  db.pragma(`journal_size_limit = ${logSizeLimit}`);
  db.pragma("cache_size = -32768");
  db.pragma("temp_store = MEMORY");
}

/**
 * Throws `StoreRefused` when the file is newer, another program's, damaged, or not writable.
 * `holder` describes this process in the error of a second one.
 */
export function openForWriting(path: string, holder: string, instance: string): Db {
  const fresh = !existsSync(path);
  return guarded(path, () => {
    // SQLite treats an empty file as a new one and deletes its log.
    if (!fresh && sizeOf(path) === 0 && sizeOf(`${path}-wal`) > 0)
      throw new StoreRefused(
        `${path} is empty, and its -wal is not: it was truncated. Restore it from a copy, or move both away`,
      );
    const db = new Database(path);
    try {
      // Bodies contain phone numbers.
      if (fresh) chmodSync(path, 0o600);
      // Waiting here blocks the event loop. The sender gets a 503 instead.
      db.pragma("busy_timeout = 250");
      const isEmpty = checkOwner(db, path);
      tune(db, fresh);
      if (isEmpty) createTables(db);
      checkQuickly(db, path);
      // SQLite opens a read-only file too: only a write shows that it can be written.
      putFileKey(db, "holder", holder);
      putFileKey(db, "instance", instance);
      if (readFileKey(db, "id") === null) putFileKey(db, "id", randomUUID());
      return db;
    } catch (error) {
      db.close();
      throw error;
    }
  });
}

export const openForReading = (path: string): Db => open(path, 2_000, true);

export function openBeside(path: string, waitsMs: number): Db {
  const db = open(path, waitsMs, false);
  db.pragma("synchronous = FULL");
  return db;
}

function open(path: string, waitsMs: number, readonly: boolean): Db {
  if (isMissing(path))
    throw new StoreRefused(`there is no store at ${path} yet; "wamid-relay serve" makes it`);
  return guarded(path, () => {
    const db = new Database(path, { readonly, fileMustExist: true });
    try {
      db.pragma(`busy_timeout = ${waitsMs}`);
      if (checkOwner(db, path))
        throw new StoreRefused(`${path} is empty; "wamid-relay serve" makes the store`);
      return db;
    } catch (error) {
      db.close();
      throw error;
    }
  });
}

function holderOf(path: string): string | null {
  try {
    const db = openForReading(path);
    try {
      return readFileKey(db, "holder");
    } finally {
      db.close();
    }
  } catch {
    return null;
  }
}

const fileKeys = {
  id: "store/id",
  /** Describes the process that opened the file last for writing. */
  holder: "store/holder",
  instance: "store/instance",
  /** When a relay that starts asked a command for the file, in ISO 8601. */
  wanted: "store/wanted",
};
export type FileKey = keyof typeof fileKeys;

function putFileKey(db: Db, what: FileKey, value: string): void {
  db.prepare(
    "INSERT INTO state (key, value, version) VALUES (?, ?, 1) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
  ).run(fileKeys[what], JSON.stringify(value));
}

export function readFileKey(db: Db, what: FileKey): string | null {
  const json = db
    .prepare<[string], string>("SELECT value FROM state WHERE key = ?")
    .pluck()
    .get(fileKeys[what]);
  return json === undefined ? null : (JSON.parse(json) as string);
}

/** Refuses a file that is not a store of this version. Returns whether it is empty. */
function checkOwner(db: Db, path: string): boolean {
  if (db.prepare("SELECT count(*) AS n FROM sqlite_schema").pluck().get() === 0) return true;
  const id = db.pragma("application_id", { simple: true }) as number;
  const former = formerIds.get(id);
  if (former !== undefined)
    throw new StoreRefused(
      `${path} is a store of wamid-relay ${former}; move it away or give storage.path another file, and register open messages again`,
    );
  if (id !== applicationId)
    throw new StoreRefused(
      `${path} is a SQLite database of another program; give storage.path another file`,
    );
  const version = db.pragma("user_version", { simple: true }) as number;
  if (version > schemaVersion) {
    throw new StoreRefused(
      `${path} was written by a newer wamid-relay (schema ${version}, this version knows ${schemaVersion}); upgrade, or use another file`,
    );
  }
  if (version < schemaVersion) {
    throw new StoreRefused(
      `${path} was written by an older wamid-relay (schema ${version}, this version needs ${schemaVersion}); move it away or give storage.path another file`,
    );
  }
  return false;
}

function createTables(db: Db): void {
  db.transaction(() => {
    for (const statement of ddl("sqlite")) db.exec(statement);
    db.pragma(`application_id = ${applicationId}`);
    db.pragma(`user_version = ${schemaVersion}`);
  }).immediate();
}

const small = ["state", "plans"];

/** A full check would take minutes; damage elsewhere fails when it is read. */
function checkQuickly(db: Db, path: string): void {
  for (const { name } of tables) db.prepare(`SELECT * FROM ${name} LIMIT 1`).get();
  for (const table of small) {
    const damage = damageOf(db, table);
    if (damage !== null) throw new StoreRefused(`${path} ${reasons["SQLITE_CORRUPT"]} (${damage})`);
  }
}

export function damageOf(db: Db, table: string): string | null {
  const found = db.pragma(`integrity_check('${table}')`, { simple: true }) as string;
  if (found === "ok") return null;
  // The first line is a heading: "*** in database main ***".
  return `${table}: ${found.split("\n").find((line) => !line.startsWith("***")) ?? found}`;
}

function guarded<T>(path: string, open: () => T): T {
  try {
    return open();
  } catch (error) {
    if (error instanceof StoreRefused) throw error;
    if (isHidden(path)) throw new StoreRefused(hiddenText(path), { cause: error });
    // SQLite reports a folder as a disk fault when it opens read-only.
    if (isFolder(path))
      throw new StoreRefused(`${path} cannot be opened: it is a folder; name the file in it`, {
        cause: error,
      });
    throw new StoreRefused(
      `${path} ${reasonOf(error) ?? `cannot be opened: ${(error as Error).message}`}`,
      { cause: error },
    );
  }
}

export function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

export function emptyLog(path: string, mode: "PASSIVE" | "TRUNCATE", waitsMs: number): void {
  try {
    const db = new Database(path, { fileMustExist: true, timeout: waitsMs });
    try {
      db.pragma(`wal_checkpoint(${mode})`);
    } finally {
      db.close();
    }
  } catch {
    // A damaged store keeps its log, and one that this user may only read leaves it to the relay.
  }
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

/** How the holder of a command begins. */
export const aCommand = "a command, ";

/**
 * Makes this process the only one that writes the file until `release`, with SQLite's exclusive
 * lock on an empty database beside it. The operating system drops the lock after a crash, and
 * readers can still open the store. A command that holds it is asked to end, and may take
 * `commandEndsMs`.
 */
export function lockFile(storePath: string, commandEndsMs = 0, timeout = 0): { release(): void } {
  let path = `${storePath}.lock`;
  let db: Database.Database;
  try {
    makeFolder(dirname(path));
    path = lockPath(storePath);
    db = new Database(path, { timeout });
    // A user who may read it could keep the relay from starting.
    chmodSync(path, 0o600);
  } catch (error) {
    const why = (error as Error).message;
    throw new StoreRefused(
      `${path} cannot be opened (${why}); check that its folder exists and that this user may write there`,
      {
        cause: error,
      },
    );
  }
  try {
    db.pragma("journal_mode = MEMORY");
    db.exec("BEGIN EXCLUSIVE");
    return { release: () => db.close() };
  } catch (error) {
    db.close();
    if (faultCode(error).startsWith("SQLITE_BUSY")) {
      const who = holderOf(storePath);
      if (commandEndsMs > 0 && who?.startsWith(aCommand) === true) {
        askForFile(storePath);
        return lockFile(storePath, 0, commandEndsMs);
      }
      throw new StoreRefused(
        `${storePath} is in use by another wamid-relay process${who === null ? "" : ` (${who})`}; only one may write it: stop it first`,
        { cause: error },
      );
    }
    throw new StoreRefused(`${path} cannot be locked: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

function askForFile(storePath: string): void {
  const db = openBeside(storePath, 2_000);
  try {
    putFileKey(db, "wanted", new Date().toISOString());
  } finally {
    db.close();
  }
}

/** Takes a reader's lock for a moment. Null: the lock file is not readable. */
export function isLocked(storePath: string): boolean | null {
  if (isMissing(storePath)) return false;
  try {
    const path = lockPath(storePath);
    if (isMissing(path)) return false;
    const db = new Database(path, { readonly: true, timeout: 0 });
    try {
      db.prepare("SELECT count(*) FROM sqlite_schema").get();
      return false;
    } finally {
      db.close();
    }
  } catch (error) {
    return faultCode(error).startsWith("SQLITE_BUSY") ? true : null;
  }
}

/** Two links to one file are one store. */
function lockPath(storePath: string): string {
  return `${existsSync(storePath) ? realpathSync(storePath) : storePath}.lock`;
}

/** `mkdir` with `recursive` never returns under a folder that allows no new ones (/proc). */
export function makeFolder(path: string, mode?: number): void {
  if (existsSync(path)) return;
  makeFolder(dirname(path), mode);
  mkdirSync(path, { mode });
}

/** Free pages that stay, so that the file does not shrink and grow all day. */
const spare = { pages: 1024, share: 0.1 };
const incremental = 2;

/** False: none left. Call it inside a transaction. */
export function createGiveBack(db: Db): (most: number) => boolean {
  const look = (name: string) => db.pragma(name, { simple: true }) as number;
  const possible = look("auto_vacuum") === incremental;
  return (most) => {
    if (!possible) return false;
    const free = look("freelist_count");
    const used = look("page_count") - free;
    const surplus = Math.floor(free - Math.max(spare.pages, used * spare.share));
    if (surplus <= 0) return false;
    db.pragma(`incremental_vacuum(${Math.min(most, surplus)})`);
    return true;
  };
}
