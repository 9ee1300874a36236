import type { Database } from "better-sqlite3";
import { SandboxRefused } from "./sandbox-refused.ts";
import type { Journal } from "./world/table.ts";

/** The sandbox's memory on disk: every record as JSON under its kind and id, written once per turn of the event loop. */
export interface StateFile {
  /** Takes note of changes; a record changed several times within a turn is written once. */
  readonly journal: Journal;
  /** Every record of the file, in the order in which they were first written. */
  records(): IterableIterator<{ readonly kind: string; readonly record: { readonly id: string } }>;
  /** Resolves once everything noted so far is in the file; rejects when it could not be written. */
  written(): Promise<void>;
  /** Writes what is left, and lets go of the file. */
  close(): void;
}

interface Change {
  readonly kind: string;
  readonly id: string;
  readonly record: object | null;
}

/**
 * Opens or makes the file, for this process alone until it is closed or ends.
 * Throws SandboxRefused for a file that is not a state file, is newer, is in use, or cannot be written.
 */
export async function openStateFile(path: string): Promise<StateFile> {
  const database = await openDatabase(path);
  const read = database.prepare<[], { kind: string; json: string }>("SELECT kind, json FROM record ORDER BY rowid");
  const upsert = database.prepare("INSERT INTO record VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET json = excluded.json");
  const remove = database.prepare("DELETE FROM record WHERE kind = ? AND id = ?");
  let noted = new Map<string, Change>();
  let turn: Promise<void> | null = null;

  const writeAll = database.transaction((changes: Iterable<Change>) => {
    for (const { kind, id, record } of changes) {
      if (record === null) remove.run(kind, id);
      else upsert.run(kind, id, JSON.stringify(record));
    }
  });
  const write = (): void => {
    if (noted.size === 0) return;
    writeAll(noted.values());
    // Only now: what a full disk kept out is tried again with the next change.
    noted = new Map();
  };
  const atTurnsEnd = (): Promise<void> => {
    turn ??= new Promise((resolve, reject) => {
      setImmediate(() => {
        turn = null;
        try {
          if (database.open) write();
          resolve();
        } catch (error) {
          reject(error as Error);
        }
      });
    });
    // Only callers of `written` receive a failure.
    turn.catch(() => {});
    return turn;
  };
  return {
    journal: {
      changed(kind, id, record) {
        noted.set(`${kind}\0${id}`, { kind, id, record });
        atTurnsEnd();
      },
    },
    *records() {
      for (const { kind, json } of read.iterate()) yield { kind, record: JSON.parse(json) as { id: string } };
    },
    written: () => (noted.size === 0 ? Promise.resolve() : atTurnsEnd()),
    close() {
      if (!database.open) return;
      try {
        write();
      } finally {
        database.close();
      }
    },
  };
}

/** `PRAGMA application_id` of a state file: "wRSb". */
const applicationId = 0x77525362;
/** `PRAGMA user_version`: the shape of the file. */
const version = 1;

async function openDatabase(path: string): Promise<Database> {
  // Loaded here: without a state file the sandbox needs no SQLite, and starts the sooner.
  const { default: Sqlite } = await import("better-sqlite3");
  let database: Database | null = null;
  try {
    database = new Sqlite(path, { timeout: 500 });
    const pragma = (text: string) => database?.pragma(text, { simple: true });
    // The lock goes when the process does, however it ends. First of all: a file opened otherwise would be shared for good.
    pragma("locking_mode = exclusive");
    const [application, shape] = [pragma("application_id"), pragma("user_version")];
    const isEmpty = database.prepare("SELECT 1 FROM sqlite_schema").get() === undefined;
    if (application !== applicationId && !isEmpty) throw new SandboxRefused(`${path} is not a sandbox's state file`);
    if (application === applicationId && Number(shape) > version) {
      throw new SandboxRefused(`${path} was written by a newer wamid-relay (shape ${shape}, this one knows ${version})`);
    }
    // With WAL, what was committed outlives the process; only the machine's own crash could lose the last moments,
    // which for a sandbox is well enough.
    pragma("journal_mode = wal");
    pragma("synchronous = normal");
    database.transaction(() => {
      pragma(`application_id = ${applicationId}`);
      pragma(`user_version = ${version}`);
      database?.exec("CREATE TABLE IF NOT EXISTS record (kind TEXT NOT NULL, id TEXT NOT NULL, json TEXT NOT NULL, UNIQUE (kind, id))");
    })();
    return database;
  } catch (error) {
    database?.close();
    throw error instanceof SandboxRefused ? error : new SandboxRefused(whyNot(path, error));
  }
}

function whyNot(path: string, error: unknown): string {
  const { code = "", message } = error as { code?: string; message: string };
  if (code === "SQLITE_NOTADB") return `${path} is not a sandbox's state file`;
  if (code.startsWith("SQLITE_BUSY")) return `${path} is in use by another sandbox`;
  if (code.startsWith("SQLITE_READONLY")) return `${path} cannot be written`;
  return `cannot open ${path}: ${message}`;
}
