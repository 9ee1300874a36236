import type { Database } from "better-sqlite3";
import { SandboxRefused } from "../sandbox-refused.ts";

/** `PRAGMA application_id` of a state file: "wRSb". */
const applicationId = 0x77525362;
/** `PRAGMA user_version`: the shape of the file. */
const version = 1;

/**
 * Opens or makes the file, for this process alone until it is closed or ends.
 * Throws SandboxRefused for a file that is not a state file, is newer, is in use, or cannot be written.
 */
export async function openDatabase(path: string): Promise<Database> {
  // Loaded here: without a state file the sandbox needs no SQLite, and starts the sooner.
  const { default: Sqlite } = await import("better-sqlite3");
  let database: Database | null = null;
  try {
    database = new Sqlite(path, { timeout: 500 });
    const pragma = (text: string) => database?.pragma(text, { simple: true });
    // The lock goes when the process does, however it ends. First of all: a file opened otherwise would be shared for good.
    pragma("locking_mode = exclusive");
    const [application, shape] = [pragma("application_id"), pragma("user_version")];
    if (application !== applicationId && !isEmpty(database)) throw new SandboxRefused(`${path} is not a sandbox's state file`);
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

function isEmpty(database: Database): boolean {
  return database.prepare("SELECT 1 FROM sqlite_schema").get() === undefined;
}

function whyNot(path: string, error: unknown): string {
  const { code = "", message } = error as { code?: string; message: string };
  if (code === "SQLITE_NOTADB") return `${path} is not a sandbox's state file`;
  if (code.startsWith("SQLITE_BUSY")) return `${path} is in use by another sandbox`;
  if (code.startsWith("SQLITE_READONLY")) return `${path} cannot be written`;
  return `cannot open ${path}: ${message}`;
}
