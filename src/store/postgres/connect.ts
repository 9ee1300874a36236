import pg from "pg";
import { StoreUnavailable } from "../port.ts";
import type { Answer, Connection } from "./runner.ts";

/** Everything that knows the client library. Pipelining is young in it (node-postgres #3652). */

export interface PostgresSettings {
  /** `postgres://user:password@host:port/database`. */
  readonly url: string;
  readonly schema: string;
  /** PEM of the authorities that may sign the server's certificate. Absent: those of the machine, where the URL asks for TLS. */
  readonly ca?: string | undefined;
}

/** `hot`: its few statements always look up by index, whatever the tables held when they were planned. */
export type Purpose = "hot" | "free";

export interface Session extends Connection {
  /** True once the connection is broken, in which case all its statements fail. */
  readonly isBroken: boolean;
  /** Several statements of which no result is needed, such as DDL. */
  script(text: string): Promise<void>;
  end(): Promise<void>;
}

/** A statement that has not answered after this time does not answer any more. */
const answersWithinMs = 30_000;

const pinned = [
  "plan_cache_mode = force_generic_plan",
  ...["seqscan", "bitmapscan", "sort", "hashjoin", "mergejoin", "material"].map((way) => `enable_${way} = off`),
];
const limits = [
  "statement_timeout = 25000",
  "lock_timeout = 10000",
  "idle_in_transaction_session_timeout = 20000",
  "client_min_messages = warning",
];

/** Opens a connection whose statements are sent without waiting for answers. Rejects with {@link StoreUnavailable}. */
export async function connect({ url, schema, ca }: PostgresSettings, purpose: Purpose): Promise<Session> {
  const client = new pg.Client({
    connectionString: url,
    ...(ca === undefined ? {} : { ssl: { ca } }),
    pipeline: true,
    connectionTimeoutMillis: 10_000,
    query_timeout: answersWithinMs,
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
  try {
    await client.connect();
    await client.query(
      [
        "BEGIN",
        `SET search_path = ${pg.escapeIdentifier(schema)}`,
        ...[...limits, ...(purpose === "hot" ? pinned : [])].map((set) => `SET ${set}`),
        "COMMIT",
      ].join("; "),
    );
  } catch (error) {
    await client.end().catch(() => {});
    throw unavailable(error);
  }
  return {
    get isBroken() {
      return broken !== null;
    },
    async query(statement): Promise<Answer> {
      const { command, rows, rowCount } = await client.query({ ...statement, values: [...statement.values] });
      return { command, rows, rowCount };
    },
    async script(text) {
      await client.query(text);
    },
    async end() {
      broken ??= new Error("closed");
      await client.end().catch(() => {});
    },
  };
}

/** bigint as a number: all of ours are safe integers. */
const getTypeParser: typeof pg.types.getTypeParser = ((oid: number, format: "text" | "binary") =>
  oid === pg.types.builtins.INT8 ? Number : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser;

const codeOf = (error: unknown): string => String((error as { code?: unknown } | null)?.code ?? "");

/** Another transaction was first: the same work succeeds when it is repeated. 23505: it inserted the same key. */
export const isConflict = (error: unknown): boolean => ["23505", "40P01", "40001"].includes(codeOf(error));

/**
 * True when the statement itself is at fault, so that the others of its batch can be stored without it. Everything else is
 * the server, the network, the disk or the permissions. Classes: data, constraints, syntax, program limits.
 */
export const isOwnFault = (error: unknown): boolean => /^(?:21|22|23|42(?!501)|54)/.test(codeOf(error)) || !isFromServer(error);

/** An error of our own code has neither a code of the server nor one of the network. */
function isFromServer(error: unknown): boolean {
  return (
    codeOf(error) !== "" || /^(?:Connection terminated|Query read timeout|timeout|Client has encountered)/i.test((error as Error).message)
  );
}

export function unavailable(error: unknown): StoreUnavailable {
  return new StoreUnavailable(`cannot store now: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
}
