import { randomUUID } from "node:crypto";
import pg from "pg";
import type { DatabaseFacts } from "../../model/database.ts";
import { seqLeap } from "../../model/ids.ts";
import { StoreMissing, StoreRefused } from "../port.ts";
import { ddl, isNumbered, schemaVersion } from "../schema/ddl.ts";
import { tables } from "../schema/tables.ts";
import { rows, type Work } from "../sql/ops.ts";
import { raw, sql } from "../sql/sql.ts";
import { create, list, put, readNow, value } from "../work/state.ts";
import { type Session, startOfServer } from "./connect.ts";

/*
 * A standby that is promoted, or a server after a crash, may have lost the last commits. Its
 * sequences then repeat numbers: listeners would skip new events, and workers settle deliveries
 * that they did not send. So the first process that connects to it advances the sequences, before
 * any transaction.
 */

const key = "store/server";

export function* adoptServer(): Work<number> {
  const [found] = yield* rows(
    sql<{ readonly start: number }>`SELECT ${raw(startOfServer)} AS start`,
  );
  const start = found?.start ?? 0;
  // A full disk refuses locks.
  if ((yield* value<number>(key)) === start) return start;
  const known = yield* value<number>(key, "update");
  if (known === null) yield* create(key, start);
  else if (known !== start) {
    for (const { name } of tables.filter(isNumbered))
      yield* rows(
        sql`SELECT setval(${`${name}_seq`}, last_value + ${seqLeap}) FROM ${raw(`${name}_seq`)}`,
      );
    yield* put(key, start);
  }
  return start;
}

const leastVersion = 14;

/** The user who created a table may always write its comment. */
const markOf = (version: number): string => `wamid-relay schema ${version}`;
const mark = /^wamid-relay schema (\d+)$/;

/**
 * Creates the tables in a new schema, and checks those of an existing one, one process after the
 * other. Throws `StoreRefused` for a server that is too old, and for tables of another program or
 * version.
 */
export async function checkSchema(session: Session, schema: string): Promise<void> {
  await checkServer(session);
  if (await isOurs(session, schema)) return;
  const name = pg.escapeLiteral(schema);
  await session.script(`BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('wamid-relay', 0))`);
  try {
    if (!(await isOurs(session, schema))) {
      const found = await one<{ n: number }>(
        session,
        `SELECT count(*) AS n FROM pg_namespace WHERE nspname = ${name}`,
      );
      // A user who may not create schemas may get an empty one.
      if (found.n === 0) await session.script(`CREATE SCHEMA ${pg.escapeIdentifier(schema)}`);
      const marked = `COMMENT ON TABLE state IS '${markOf(schemaVersion)}'`;
      const named = `INSERT INTO state (key, value, version) VALUES ('store/id', '${JSON.stringify(randomUUID())}', 1)`;
      await session.script([...ddl("postgres"), marked, named].join(";\n"));
    }
    await session.script("COMMIT");
  } catch (error) {
    await session.script("ROLLBACK").catch(() => {});
    throw error;
  }
}

/**
 * For a process that has used the tables: it must not create them again, because what waited in
 * them would be forgotten.
 */
export async function checkKept(session: Session, schema: string): Promise<void> {
  await checkServer(session);
  if (!(await isOurs(session, schema)))
    throw new StoreRefused(
      `schema ${schema}: its tables were removed while in use; ${restoreOrRestart}`,
    );
}

export const restoreOrRestart = "restore them, or restart the relay to use what is there now";

export async function checkReadable(session: Session, schema: string): Promise<void> {
  await checkServer(session);
  if (await isOurs(session, schema)) return;
  const { may } = await one<{ may: boolean }>(
    session,
    `SELECT coalesce((SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = ${pg.escapeLiteral(schema)}),
      has_database_privilege(current_database(), 'CREATE')) AS may`,
  );
  const none = `schema ${schema}: there is no store yet`;
  throw may
    ? new StoreMissing(`${none}; "wamid-relay serve" makes it`)
    : new StoreRefused(
        `${none}, and the user may not make it; grant it CREATE on the database, or on an empty schema of this name`,
      );
}

async function checkServer(session: Session): Promise<void> {
  const { version, encoding } = await one<{ version: number; encoding: string }>(
    session,
    "SELECT current_setting('server_version_num')::bigint AS version, current_setting('server_encoding') AS encoding",
  );
  const major = Math.floor(version / 10_000);
  if (major < leastVersion)
    throw new StoreRefused(`is PostgreSQL ${major}, and the relay needs ${leastVersion} or newer`);
  if (encoding !== "UTF8")
    throw new StoreRefused(
      `has the encoding ${encoding}, which lacks characters of events; create a database with ENCODING 'UTF8' TEMPLATE template0`,
    );
}

async function isOurs(session: Session, schema: string): Promise<boolean> {
  const names = tables.map(({ name }) => pg.escapeLiteral(name)).join(", ");
  const found = await session.query({
    name: "",
    text: `SELECT c.relname AS name, obj_description(c.oid, 'pg_class') AS mark FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm') AND c.relname IN (${names})`,
    values: [schema],
  });
  if (found.rows.length === 0) return false;
  const text = found.rows.find((row) => row["name"] === "state")?.["mark"];
  const version = Number(mark.exec(typeof text === "string" ? text : "")?.[1] ?? 0);
  if (version === schemaVersion) return true;
  const tell = (what: string): never => {
    throw new StoreRefused(`schema ${schema}: ${what}`);
  };
  if (version === 0)
    return tell("its tables are not from wamid-relay; give storage.schema another name");
  if (version > schemaVersion)
    return tell(
      `written by a newer wamid-relay (schema ${version}, this version knows ${schemaVersion}); upgrade this process`,
    );
  return tell(
    `written by an older wamid-relay (schema ${version}, this version needs ${schemaVersion}); give storage.schema another name`,
  );
}

async function one<Row>(session: Session, text: string): Promise<Row> {
  const { rows } = await session.query({ name: "", text, values: [] });
  return rows[0] as Row;
}

/** A promotion begins a timeline with a higher number. */
export interface Primary {
  readonly system: string;
  readonly timeline: number;
}

/** Null: a standby, or a hosted server that refuses these functions. */
export const readPrimary = (session: Session): Promise<Primary | null> =>
  one<Primary>(
    session,
    `SELECT (SELECT system_identifier::text FROM pg_control_system()) AS system,
      ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int AS timeline`,
  ).catch(() => null);

/** `now`: unix ms of this process's clock. */
export async function readDatabaseFacts(
  read: <T>(work: Work<T>) => Promise<T>,
  now: () => number,
): Promise<DatabaseFacts> {
  const times = [await readTime(read, now), await readTime(read, now), await readTime(read, now)];
  const [fastest] = times.toSorted((a, b) => a.roundTripMs - b.roundTripMs);
  return { ...(await read(serverFacts())), ...(fastest ?? { skewMs: 0, roundTripMs: 0 }) };
}

async function readTime(read: <T>(work: Work<T>) => Promise<T>, now: () => number) {
  const sentAt = now();
  const found = await read(readNow());
  const roundTripMs = now() - sentAt;
  return { roundTripMs, skewMs: Math.round(found - sentAt - roundTripMs / 2) };
}

function* serverFacts(): Work<Omit<DatabaseFacts, "skewMs" | "roundTripMs">> {
  const [server] = yield* rows(
    sql<Omit<DatabaseFacts, "skewMs" | "roundTripMs" | "transaction">>`SELECT
      current_setting('server_version') AS version, pg_is_in_recovery() AS "isReplica",
      current_setting('default_transaction_read_only')::bool AS "isReadOnly",
      coalesce(current_setting('fsync', true)::bool, true) AS fsync,
      coalesce(current_setting('full_page_writes', true)::bool, true) AS "fullPageWrites",
      current_setting('synchronous_commit') AS "synchronousCommit", coalesce(current_setting('synchronous_standby_names', true), '') AS "synchronousStandbys",
      (SELECT count(*)::int FROM pg_stat_replication) AS standbys,
      (SELECT CASE WHEN bool_or(sync_state IS NULL) THEN NULL ELSE count(*) FILTER (WHERE sync_state IN ('sync', 'quorum'))::int END
        FROM pg_stat_replication) AS "connectedSynchronous",
      current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend') AS "connectionsLeft",
      pg_has_role('pg_read_all_stats', 'USAGE') AS "seesSessions",
      (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::float8 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = current_schema() AND c.relkind = 'r') AS bytes`,
  );
  if (server === undefined) throw new Error("PostgreSQL answered without a row");
  const [transaction = null] = yield* rows(
    sql<
      NonNullable<DatabaseFacts["transaction"]>
    >`SELECT extract(epoch FROM now() - xact_start)::float8 AS seconds, pid,
      application_name AS application, state, backend_xid IS NOT NULL AS "hasWritten"
      FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'
      ORDER BY backend_xid IS NULL, xact_start LIMIT 1`,
  );
  return { ...server, transaction };
}

export interface Presence {
  readonly id: string;
  readonly role: "receive" | "work" | "both" | "command";
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  readonly since: number;
}

export const presentEveryMs = 2_000;
const silentAfterMs = 10_000;
const forgottenAfterMs = 3_600_000;

const prefix = "process/";

export const notePresence = (presence: Presence, now: number) =>
  put(`${prefix}${presence.id}`, { ...presence, at: now }, now + forgottenAfterMs);

export const endPresence = ({ id }: Presence) => put(`${prefix}${id}`, null);

export function* readPresences(): Work<Presence[]> {
  const now = yield* readNow();
  return (yield* list<Presence & { readonly at: number }>(prefix))
    .filter(({ value }) => value.at > now - silentAfterMs)
    .map(({ value: { at: _, ...presence } }) => presence)
    .sort((a, b) => b.since - a.since);
}
