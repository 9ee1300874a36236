import { randomBytes } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Database } from "better-sqlite3";
import type { z } from "zod";
import type { Clock } from "../model/clock.ts";
import { createSandboxClock } from "./clock.ts";
import { createGrowingIds, createRandom } from "./ids.ts";
import type { sandboxOptionsSchema } from "./options.ts";
import { SandboxRefused } from "./sandbox-refused.ts";
import { newSecret } from "./signing.ts";
import type { Journal } from "./table.ts";
import { createWorld, type World } from "./world.ts";

interface MemorySettings
  extends Pick<z.output<typeof sandboxOptionsSchema>, "file" | "seed" | "keepMessages" | "secret"> {
  readonly baseClock: Clock;
  readonly watch: ((world: World) => Journal) | null;
}

export type Memory = Awaited<ReturnType<typeof openMemory>>;

interface Setup {
  readonly id: "setup";
  secret: string;
  starts: number;
  clockOffset: number;
  frozenAt: number | null;
}

/**
 * The world, and what goes on from an earlier run: time, ids, chance and the secret. Throws
 * SandboxRefused.
 */
export async function openMemory(settings: MemorySettings) {
  const { baseClock, watch } = settings;
  const file = settings.file === undefined ? null : await openStateFile(settings.file);
  // Empty at first: what comes from the file is not written again.
  const journals: Journal[] = [];
  const changed: Journal["changed"] = (...change) => {
    for (const journal of journals) journal.changed(...change);
  };
  const world = createWorld({ changed }, settings);
  const { setup, greatestId } = readWorld(file, world);
  if (file !== null) journals.push(file);
  if (watch !== null) journals.push(watch(world));

  const state = setup ?? {
    id: "setup",
    secret: newSecret(),
    starts: 0,
    clockOffset: 0,
    frozenAt: null,
  };
  const remember = () => changed("setup", state.id, state);
  state.starts += 1;
  const formerSecret = state.secret;
  state.secret = settings.secret ?? formerSecret;
  remember();

  const clock = createSandboxClock(
    baseClock,
    state.frozenAt ?? baseClock.now() + state.clockOffset,
    () => {
      state.clockOffset = clock.now() - baseClock.now();
      state.frozenAt = clock.isFrozen ? clock.now() : null;
      remember();
    },
  );
  if (state.frozenAt !== null) clock.freeze();
  // Another stream at each start: the same wamids must not come again.
  const seed = settings.seed ?? randomBytes(8).toString("hex");
  const random = createRandom(state.starts === 1 ? seed : `${seed}/${state.starts}`);
  const ids = createGrowingIds({ now: clock.now, random: random.fork("ids"), after: greatestId });
  return {
    world,
    clock,
    ids,
    owned: (account: string) => ({ id: ids(), account, createdAt: clock.now() }),
    random,
    secret: state.secret,
    formerSecret,
    file,
    close() {
      clock.close();
      file?.close();
    },
  };
}

function readWorld(file: StateFile | null, world: World) {
  const tables = new Map(
    Object.values(world).map((table) => [table.kind, table as { put(record: unknown): void }]),
  );
  let setup: Setup | null = null;
  let greatestId = "";
  for (const { kind, record } of file?.records() ?? []) {
    if (kind === "setup") setup = record as Setup;
    else tables.get(kind)?.put(record);
    // The others are UUIDs.
    if (kind !== "setup" && kind !== "account" && record.id > greatestId) greatestId = record.id;
  }
  return { setup, greatestId };
}

type StateFile = Awaited<ReturnType<typeof openStateFile>>;

interface Change {
  readonly kind: string;
  readonly id: string;
  readonly record: object | null;
}

/**
 * Every record as JSON, written once per turn of the event loop. The file is this process's alone.
 * Throws SandboxRefused.
 */
export async function openStateFile(path: string) {
  const database = await openDatabase(path);
  const read = database.prepare<[], { kind: string; json: string }>(
    "SELECT kind, json FROM record ORDER BY rowid",
  );
  const upsert = database.prepare(
    "INSERT INTO record VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET json = excluded.json",
  );
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
    // Only now: what failed is tried again with the next change.
    noted = new Map();
  };
  const atTurnsEnd = (): Promise<void> => {
    turn ??= nextTurn().then(() => {
      turn = null;
      if (database.open) write();
    });
    // Only callers of `written` receive a failure.
    turn.catch(() => {});
    return turn;
  };
  return {
    changed(kind: string, id: string, record: object | null): void {
      noted.set(`${kind}\0${id}`, { kind, id, record });
      atTurnsEnd();
    },
    *records(): Generator<{ readonly kind: string; readonly record: { readonly id: string } }> {
      for (const { kind, json } of read.iterate())
        yield { kind, record: JSON.parse(json) as { id: string } };
    },
    /** Rejects when what was noted could not be written. */
    written: () => (noted.size === 0 ? Promise.resolve() : atTurnsEnd()),
    close(): void {
      if (!database.open) return;
      try {
        write();
      } finally {
        database.close();
      }
    },
  };
}

const applicationId = 0x77525362;
const version = 2;

async function openDatabase(path: string): Promise<Database> {
  // Loaded here: without a state file the sandbox needs no SQLite.
  const { default: Sqlite } = await import("better-sqlite3");
  let database: Database | null = null;
  try {
    database = new Sqlite(path, { timeout: 500 });
    const pragma = (text: string) => database?.pragma(text, { simple: true });
    // First of all: the lock goes when the process does.
    pragma("locking_mode = exclusive");
    const [application, shape] = [pragma("application_id"), pragma("user_version")];
    const isEmpty = database.prepare("SELECT 1 FROM sqlite_schema").get() === undefined;
    if (application !== applicationId && !isEmpty)
      throw new SandboxRefused(`${path} is not a sandbox's state file`);
    if (application === applicationId && shape !== version)
      throw new SandboxRefused(
        `${path} was written by another version of wamid-relay (shape ${shape}, this one knows ${version})`,
      );
    // Only a crash of the machine could lose the last moments.
    pragma("journal_mode = wal");
    pragma("synchronous = normal");
    database.transaction(() => {
      pragma(`application_id = ${applicationId}`);
      pragma(`user_version = ${version}`);
      database?.exec(
        "CREATE TABLE IF NOT EXISTS record (kind TEXT NOT NULL, id TEXT NOT NULL, json TEXT NOT NULL, UNIQUE (kind, id))",
      );
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
