import type { Socket } from "node:net";
import pg from "pg";
import { readPostgresUrl } from "../../model/postgres.ts";
import { type TlsSettings, tlsOptions } from "../../net/tls.ts";
import { faultCode, StoreLost, StoreUnavailable } from "../port.ts";
import type { Answer, Connection } from "./runner.ts";

export interface PostgresSettings {
  readonly url: string;
  readonly schema: string;
  readonly tls?: TlsSettings | undefined;
}

/**
 * | purpose | for | statements |
 * |---|---|---|
 * | `hot` | commands, and reads of single rows | look up by index, whatever the tables held when they were planned |
 * | `free` | lists and other reads of many rows | are planned anew by what the tables hold, and may take long |
 * | `watch` | noticing soon that the database does not answer, notifications | are few and tiny |
 */
export type Purpose = "hot" | "free" | "watch";

export interface Session extends Connection {
  readonly isBroken: boolean;
  readonly serverStart: number;
  /** Process id at the server. */
  readonly backend: number;
  /** In ms of `performance.now()`. */
  readonly openedAt: number;
  script(text: string): Promise<void>;
  listen(channel: string, receive: (payload: string) => void): Promise<void>;
  end(): Promise<void>;
}

/** A promoted standby has another one than its primary. */
export const startOfServer = "(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint";

/**
 * How long a statement may take, wait for a lock, leave a transaction open, and stay without an
 * answer. A worker that stands still may hold locks of its leases: they must end before others take
 * its routes (`model/route-lease.ts`).
 */
const limitsMs = {
  hot: { statement: 4_000, lock: 3_000, idle: 5_000, answer: 5_000 },
  free: { statement: 25_000, lock: 3_000, idle: 20_000, answer: 30_000 },
  watch: { statement: 2_000, lock: 1_500, idle: 5_000, answer: 2_500 },
} satisfies Readonly<Record<Purpose, object>>;
const connectsWithinMs = 5_000;
const endsWithinMs = 1_000;

const pinned = [
  "plan_cache_mode = force_generic_plan",
  ...["seqscan", "bitmapscan", "sort", "hashjoin", "mergejoin", "material"].map(
    (way) => `enable_${way} = off`,
  ),
];

/** Statements are sent without waiting for answers. Rejects with `StoreUnavailable`. */
export async function connect(
  { url, schema, tls }: PostgresSettings,
  purpose: Purpose,
): Promise<Session> {
  const place = readPostgresUrl(url);
  if (place === null)
    throw new StoreUnavailable("PostgreSQL cannot be used now: its URL cannot be read");
  const { host, port, user, password, database, isEncrypted } = place;
  const limits = limitsMs[purpose];
  const client = new pg.Client({
    ...{ host, port, user, password, database },
    ssl: isEncrypted || tls !== undefined ? tlsOptions(tls) : false,
    // Young in the library (node-postgres #3652).
    pipeline: true,
    connectionTimeoutMillis: connectsWithinMs,
    query_timeout: limits.answer,
    keepAlive: true,
    keepAliveInitialDelayMillis: 5_000,
    application_name: "wamid-relay",
    types: { getTypeParser },
  });
  let broken: unknown = null;
  client.on("error", (error) => {
    broken ??= error;
  });
  client.once("end", () => {
    broken ??= new Error("the connection has ended");
  });
  async function end(): Promise<void> {
    broken ??= new Error("the connection is closed");
    const late = setTimeout(() => socketOf(client).destroy(), endsWithinMs);
    await client.end().catch(() => {});
    clearTimeout(late);
  }
  const sets = [
    `search_path = ${pg.escapeIdentifier(schema)}`,
    `statement_timeout = ${limits.statement}`,
    `lock_timeout = ${limits.lock}`,
    `idle_in_transaction_session_timeout = ${limits.idle}`,
    "client_min_messages = warning",
    // A default of the database may be stricter: transactions of processes would then fail over
    // each other.
    "default_transaction_isolation = 'read committed'",
    ...(purpose === "hot" ? pinned : []),
  ];
  let server = { start: 0, backend: 0 };
  try {
    await client.connect();
    await client.query(["BEGIN", ...sets.map((set) => `SET ${set}`), "COMMIT"].join("; "));
    // After the settings, which some poolers take as a reason to share the session no more.
    const { rows } = await client.query<typeof server>(
      `SELECT ${startOfServer} AS start, pg_backend_pid() AS backend`,
    );
    server = rows[0] ?? server;
  } catch (error) {
    await end();
    throw unavailable(error);
  }
  return {
    get isBroken() {
      return broken !== null;
    },
    serverStart: server.start,
    backend: server.backend,
    openedAt: performance.now(),
    async query(statement): Promise<Answer> {
      const { command, rows, rowCount } = await client.query({
        ...statement,
        values: [...statement.values],
      });
      return { command, rows, rowCount };
    },
    async script(text) {
      await client.query(text);
    },
    async listen(channel, receive) {
      client.on("notification", ({ payload = "" }) => receive(payload));
      await client.query(`LISTEN ${pg.escapeIdentifier(channel)}`);
    },
    end,
  };
}

/** The library waits for a server that does not answer. */
const socketOf = (client: pg.Client) =>
  (client as unknown as { connection: { stream: Socket } }).connection.stream;

/** bigint as a number: all of ours are safe integers. */
const getTypeParser: typeof pg.types.getTypeParser = ((oid: number, format: "text" | "binary") =>
  oid === pg.types.builtins.INT8
    ? Number
    : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser;

/** Another transaction was first: the same work succeeds when it is repeated. */
export const isConflict = (error: unknown): boolean =>
  ["23505", "40P01", "40001"].includes(faultCode(error));

/** The server only reads, or a default of the database or user that this connection began with. */
export const isReadOnly = (error: unknown): boolean => faultCode(error) === "25006";

/**
 * The statement itself is at fault (classes: data, constraints, syntax, limits), so the others of
 * its batch can be stored. All else is the server, the network, the disk or the permissions.
 */
export const isOwnFault = (error: unknown): boolean =>
  /^(?:21|22|23|42(?!501|P05)|54)/.test(faultCode(error)) || !isFromServer(error);

/**
 * A working connection answered: a full disk, a replica that only reads, a lock. Only SQLSTATE has
 * digits, EPIPE has none.
 */
export const isAnswered = (error: unknown): boolean =>
  /^(?!08|28|3D|53300|57P)(?=.*\d)[0-9A-Z]{5}$/.test(faultCode(error));

function isFromServer(error: unknown): boolean {
  return (
    /^(?!ERR_(?!TLS|SSL))[A-Z0-9_]+$/.test(faultCode(error)) || lost.test((error as Error).message)
  );
}

const lost =
  /^(?:Connection terminated|Query read timeout|timeout|Client (?:has|was)|The server does not support SSL|There was an error estab)/i;

/**
 * Of a statement on a connection that this process had ended itself. When the server ends one, the
 * library adds "unexpectedly".
 */
export const isOwnEnd = (error: unknown): boolean =>
  /^(?:Client was closed|Connection terminated$)/.test((error as Error).message);

export function unavailable(error: unknown): StoreUnavailable {
  if (error instanceof StoreUnavailable) return error;
  const Fault =
    isReadOnly(error) && (error as { hint?: string }).hint === "moved"
      ? StoreLost
      : StoreUnavailable;
  return new Fault(
    `PostgreSQL cannot be used now: ${error instanceof Error ? error.message : String(error)}`,
    { cause: error },
  );
}
