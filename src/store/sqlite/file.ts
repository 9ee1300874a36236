import { randomUUID } from "node:crypto";
import { chmodSync, existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import Database from "better-sqlite3";
import { StoreRefused } from "../port.ts";
import { logSizeLimit, reasonOf, reasons } from "./faults.ts";

export type Db = Database.Database;

/** "wam1" in ASCII: marks the file as ours, so that another program's database is never migrated. */
const applicationId = 0x77616d31;
/** "wamd", of 0.x and of 1.x files made before 2026-11-24. 0.x counted schemas up to 20, and 1.x began at 1 again. */
const formerId = 0x77616d64;

const migrationsDir = new URL("./migrations/", import.meta.url);

interface Migration {
  version: number;
  file: string;
}

function listMigrations(): Migration[] {
  return readdirSync(migrationsDir)
    .filter((file) => file.endsWith(".sql"))
    .sort()
    .map((file) => ({ version: Number.parseInt(file, 10), file }));
}

/** How the file is written. */
export function tune(db: Db, fresh: boolean): void {
  // Works only while the file is empty. Retention then returns freed pages to the disk (purge.ts).
  if (fresh) db.pragma("auto_vacuum = INCREMENTAL");
  db.pragma("journal_mode = WAL");
  // Acknowledged events must be durable. better-sqlite3's default in WAL mode, NORMAL, is not.
  db.pragma("synchronous = FULL");
  // In pages. An event changes pages of many others: the fewer checkpoints, the more of them are written once for several.
  db.pragma("wal_autocheckpoint = 4000");
  db.pragma(`journal_size_limit = ${logSizeLimit}`);
  db.pragma("cache_size = -65536");
  db.pragma("temp_store = MEMORY");
}

/**
 * Opens the file for the process that holds its lock, and creates or migrates it. Throws {@link StoreRefused} when the file
 * is newer, another program's, damaged, or not writable. `holder` describes the process in the error of a second one, and
 * `instance` identifies it.
 */
export function openForWriting(path: string, holder: string, instance: string): Db {
  const fresh = !existsSync(path);
  return guarded(path, () => {
    // SQLite treats an empty file as a new one and deletes its log.
    if (!fresh && sizeOf(path) === 0 && sizeOf(`${path}-wal`) > 0)
      throw new StoreRefused(`${path} is empty, and its -wal is not: it was truncated. Restore it from a copy, or move both away`);
    const db = new Database(path);
    try {
      // Bodies contain phone numbers, so other users of the machine must not read them.
      if (fresh) chmodSync(path, 0o600);
      // Short, because waiting here blocks the event loop. The sender gets a 503 instead.
      db.pragma("busy_timeout = 250");
      checkOwner(db, path);
      tune(db, fresh);
      migrate(db, path);
      // So that a 0.x program refuses the file instead of migrating it.
      if (db.pragma("application_id", { simple: true }) !== applicationId) db.pragma(`application_id = ${applicationId}`);
      checkQuickly(db, path);
      // SQLite opens a read-only file too: only a write shows that it can be written.
      db.prepare(
        "INSERT INTO meta (key, value) VALUES ('holder', ?), ('instance', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
      ).run(holder, instance);
      db.prepare("INSERT INTO meta (key, value) VALUES ('id', ?) ON CONFLICT (key) DO NOTHING").run(randomUUID());
      return db;
    } catch (error) {
      db.close();
      throw error;
    }
  });
}

/** Opens the file read-only, beside the process that writes it. */
export function openForReading(path: string): Db {
  if (!existsSync(path)) throw new StoreRefused(`there is no store at ${path} yet; "wamid-relay serve" makes it`);
  return guarded(path, () => {
    const db = new Database(path, { readonly: true, fileMustExist: true });
    try {
      db.pragma("busy_timeout = 2000");
      checkOwner(db, path);
      const found = schemaVersion(db);
      const known = newestVersion();
      if (found < known)
        throw new StoreRefused(
          `${path} has an older schema (${found}, this version has ${known}); start "wamid-relay serve" once to migrate it`,
        );
      return db;
    } catch (error) {
      db.close();
      throw error;
    }
  });
}

/** The process that opened the file last for writing, for the error of a second one. */
export function holderOf(path: string): string | null {
  try {
    const db = openForReading(path);
    try {
      return db.prepare<[], string>("SELECT value FROM meta WHERE key = 'holder'").pluck().get() ?? null;
    } finally {
      db.close();
    }
  } catch {
    return null;
  }
}

function newestVersion(): number {
  return listMigrations().at(-1)?.version ?? 0;
}

function schemaVersion(db: Db): number {
  return db.pragma("user_version", { simple: true }) as number;
}

function checkOwner(db: Db, path: string): void {
  const id = db.pragma("application_id", { simple: true }) as number;
  const version = schemaVersion(db);
  const empty = db.prepare("SELECT count(*) AS n FROM sqlite_schema").pluck().get() === 0;
  if (id === formerId && !empty && !isOfFirstMajor(db, version))
    throw new StoreRefused(
      `${path} is a store of wamid-relay 0.x, which 1.x cannot read; move it away or give storage.path another file, and register open messages again`,
    );
  if (id !== applicationId && id !== formerId && !empty)
    throw new StoreRefused(`${path} is a SQLite database of another program; give storage.path another file`);
  const known = newestVersion();
  if (version > known) {
    throw new StoreRefused(
      `${path} was written by a newer wamid-relay (schema ${version}, this version knows ${known}); upgrade, or use another file`,
    );
  }
}

/** True for a 1.x file with the former id: no 0.x had this table. */
function isOfFirstMajor(db: Db, version: number): boolean {
  return version === 1 && db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'history_minutes'").get() !== undefined;
}

function migrate(db: Db, path: string): void {
  for (const { version, file } of listMigrations()) {
    if (version <= schemaVersion(db)) continue;
    const sql = readFileSync(new URL(file, migrationsDir), "utf8");
    try {
      db.transaction(() => {
        db.exec(sql);
        db.pragma(`application_id = ${applicationId}`);
        db.pragma(`user_version = ${version}`);
      }).immediate();
    } catch (error) {
      throw new StoreRefused(`${path} could not be migrated by ${file}: ${(error as Error).message}`, { cause: error });
    }
  }
}

/** Small tables that are read at start, and checked in full. */
const small = ["meta", "names", "plans", "stopped"];

/**
 * Checks the small tables and the first row of the others for damage, so that the relay can refuse to start. A full check
 * would take minutes; damage elsewhere fails when it is read.
 */
function checkQuickly(db: Db, path: string): void {
  for (const table of db.prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table'").pluck().all()) {
    db.prepare(`SELECT * FROM "${table}" LIMIT 1`).get();
  }
  for (const table of small) {
    const damage = damageOf(db, table);
    if (damage !== null) throw new StoreRefused(`${path} ${reasons["SQLITE_CORRUPT"]} (${damage})`);
  }
}

/** The first damage that SQLite reports for a table, or null. */
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
    // SQLite reports a folder as a disk fault when it opens read-only.
    if (isFolder(path)) throw new StoreRefused(`${path} cannot be opened: it is a folder; name the file in it`, { cause: error });
    throw new StoreRefused(`${path} ${reasonOf(error) ?? `cannot be opened: ${(error as Error).message}`}`, { cause: error });
  }
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}
