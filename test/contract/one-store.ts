import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import type { DueRange, QueuedDelivery, Settling } from "../../src/model/delivery.ts";
import type { ReceivedEvent } from "../../src/model/event.ts";
import { type Batches, createCommands } from "../../src/store/create-store.ts";
import type { Rules } from "../../src/store/port.ts";
import { createPostgresCommit } from "../../src/store/postgres/commit.ts";
import { connect } from "../../src/store/postgres/connect.ts";
import { createSessions, type Sessions } from "../../src/store/postgres/sessions.ts";
import { ddl } from "../../src/store/schema/ddl.ts";
import { type RowOf, type Table, tables } from "../../src/store/schema/tables.ts";
import { rows, type Work } from "../../src/store/sql/ops.ts";
import { raw, sql } from "../../src/store/sql/sql.ts";
import { createSqliteCommit } from "../../src/store/sqlite/commit.ts";
import { tune } from "../../src/store/sqlite/file.ts";
import { createSqliteRunner } from "../../src/store/sqlite/runner.ts";
import { due, duePlaces, loadDeliveries } from "../../src/store/work/attempts.ts";
import type { Held } from "../../src/store/work/leases.ts";
import { sumRegistered } from "../../src/store/work/register.ts";
import type { MessageRegistration } from "../../src/track/registration.ts";
import { createDatabase } from "../setup/database.ts";
import type { PostgresVersion } from "../setup/postgres.ts";

export type Commands = ReturnType<typeof createCommands>;

export interface OpenOptions {
  readonly held?: () => Held;
  readonly writer?: string;
}

export type OpenStore = (rules: Rules, options?: OpenOptions) => Promise<OneStore>;

/** What a database gives. */
interface Opened extends AsyncDisposable {
  /** Commands of one turn. */
  send<In, Out>(kind: Batches<In, Out>, items: readonly In[]): Promise<Out[]>;
  run<T>(make: () => Work<T>): Promise<T>;
  /** Without a transaction. */
  read<T>(work: Work<T>): Promise<T>;
  /** In one transaction that reads one snapshot. */
  snapshot<T>(work: Work<T>): Promise<T>;
}

export type OneStore = ReturnType<typeof oneStore>;

/**
 * The hot path of the one store on one database. `writer`: empty where no other process opens the
 * database.
 */
function oneStore(writer: string, commands: Commands, opened: Opened) {
  const { send, run, read } = opened;
  return {
    ...opened,
    writer,
    /** The events of one turn. */
    accept: (events: readonly ReceivedEvent[], proxyRoute: string | null = null) =>
      send(
        commands.accept,
        events.map((event) => ({ event, proxyRoute })),
      ),
    settle: (settlements: readonly Settling[]) => send(commands.settle, settlements),
    due: (route: string, now: number, limit = 100, from = 0) =>
      read(dueDeliveries({ route, from, now, limit })),
    nextDueAt: async (route: string, now: number) =>
      (await read(due({ route, from: 0, now, limit: 10_000 }))).nextAt,
    /** All or none. */
    register: async (registrations: readonly MessageRegistration[], at: number) =>
      sumRegistered((await send(commands.register, [{ registrations, at }])).flat()),
    registerEach: async (registrations: readonly MessageRegistration[], at: number) =>
      (
        await send(
          commands.register,
          registrations.map((one) => ({ registrations: [one], at })),
        )
      ).flat(),
    releaseParked: (now: number, limit: number) =>
      run(() => commands.writes.releaseParked(now, limit)),
    expireParked: (now: number, limit: number) =>
      run(() => commands.writes.expireParked(now, limit)),
    send: <In, Out>(kind: (commands: Commands) => Batches<In, Out>, items: readonly In[]) =>
      send(kind(commands), items),
    /** All rows of a table, in the order of its key. */
    rows: <T extends Table>(table: T) => read(allRows(table)),
  };
}

function* dueDeliveries(range: DueRange): Work<QueuedDelivery[]> {
  return yield* loadDeliveries(range.route, yield* duePlaces(range));
}

export async function openSqlite(
  rules: Rules,
  { held = () => null, writer = "" }: OpenOptions = {},
): Promise<OneStore> {
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-one-"));
  const db = new Database(join(folder, "relay.db"));
  tune(db, true);
  for (const statement of ddl("sqlite")) db.exec(statement);
  const runner = createSqliteRunner(db);
  const commit = createSqliteCommit(runner, {
    refusal: () => null,
    *begin() {},
    arriving: () => false,
    committed() {},
    rolledBack() {},
  });
  return oneStore(writer, createCommands({ rules, writer, held }), {
    send: (kind, items) => Promise.all(items.map((item) => commit.run(kind, item))),
    run: async (make) => runner.transact(make()),
    read: async (work) => runner.now(work),
    snapshot: async (work) => db.transaction(() => runner.now(work))(),
    async [Symbol.asyncDispose]() {
      await commit.idle();
      db.close();
      rmSync(folder, { recursive: true });
    },
  });
}

/** A database with the tables, which several processes may open. */
export interface SharedDatabase extends AsyncDisposable {
  readonly url: string;
  open: OpenStore;
  sessions(): Sessions;
}

export async function createShared(version: PostgresVersion): Promise<SharedDatabase> {
  const { url, drop } = await createDatabase(version);
  await createTables(url);
  return sharedAt(url, drop);
}

/** One for all cases of a process: to create a database takes longer than most of them. */
const emptied = new Map<PostgresVersion, Promise<SharedDatabase>>();

/** The process's database, emptied: for one test at a time. */
export async function emptyShared(version: PostgresVersion = 18): Promise<SharedDatabase> {
  const creating = emptied.get(version) ?? createShared(version);
  emptied.set(version, creating);
  const { url } = await creating;
  const setup = await connect(settingsOf(url), "free");
  const numbered = ["events", "subjects"].map((name) => `ALTER SEQUENCE ${name}_seq RESTART`);
  await setup.script(
    [`TRUNCATE ${tables.map(({ name }) => name).join(", ")}`, ...numbered].join("; "),
  );
  await setup.end();
  return sharedAt(url, async () => {});
}

function sharedAt(url: string, end: () => Promise<void>): SharedDatabase {
  const opened: AsyncDisposable[] = [];
  return {
    url,
    sessions() {
      const sessions = createSessions(settingsOf(url), { most: 2 });
      opened.push({ [Symbol.asyncDispose]: () => sessions.close() });
      return sessions;
    },
    async open(rules, options) {
      const store = openOn(url, rules, options);
      opened.push(store);
      return store;
    },
    async [Symbol.asyncDispose]() {
      for (const one of opened) await one[Symbol.asyncDispose]();
      await end();
    },
  };
}

/** On an empty database of any server. */
export async function openSharedAt(url: string, rules: Rules): Promise<OneStore> {
  await createTables(url);
  return openOn(url, rules);
}

const settingsOf = (url: string) => ({ url, schema: "relay" });

async function createTables(url: string): Promise<void> {
  const setup = await connect(settingsOf(url), "free");
  await setup.script(["CREATE SCHEMA relay", ...ddl("postgres")].join(";\n"));
  await setup.end();
}

function openOn(
  url: string,
  rules: Rules,
  { held = () => null, writer = "here" }: OpenOptions = {},
): OneStore {
  const sessions = createSessions(settingsOf(url), { most: 2 });
  const commits = new Map<unknown, unknown>();
  return oneStore(writer, createCommands({ rules, writer, held }), {
    send<In, Out>(kind: Batches<In, Out>, items: readonly In[]) {
      const commit = (commits.get(kind) ?? createPostgresCommit(sessions, kind)) as ReturnType<
        typeof createPostgresCommit<In, Out>
      >;
      commits.set(kind, commit);
      return Promise.all(items.map((item) => commit.run(item)));
    },
    run: sessions.transact,
    read: sessions.read,
    snapshot: sessions.readSnapshot,
    [Symbol.asyncDispose]: () => sessions.close(),
  });
}

export const openPostgres =
  (version: PostgresVersion): OpenStore =>
  async (rules, options) =>
    (await emptyShared(version)).open(rules, options);

function* allRows<T extends Table>(table: T): Work<RowOf<T>[]> {
  const found = yield* rows<RowOf<T>>(
    sql`SELECT * FROM ${raw(table.name)} ORDER BY ${raw(table.key.map((name) => `"${name}"`).join(", "))}`,
  );
  return [...found];
}

/** The settlement of the next attempt of a delivery. */
export function settlementOf(
  delivery: QueuedDelivery,
  to: "delivered" | "waiting" | "dead",
  at: number,
  more: Partial<Settling> = {},
): Settling {
  const { route, event, receivedAt, attempts } = delivery;
  return {
    route,
    event,
    delivery,
    at,
    receivedAt,
    attempt: {
      number: attempts + 1,
      at: at - 5,
      tookMs: 4.6,
      result: { kind: "answered", status: to === "delivered" ? 200 : 503, retryAfterMs: null },
      response: null,
    },
    settled:
      to === "waiting"
        ? { to, nextAt: at + 1_000 }
        : to === "dead"
          ? { to, reason: "attempts" }
          : { to },
    ...more,
  };
}
