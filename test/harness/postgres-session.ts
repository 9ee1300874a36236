import { Client, type QueryResultRow } from "pg";
import { until } from "./until.ts";

/** A connection of its own, so that tests can hold transactions open against each other. */
export interface Session extends AsyncDisposable {
  /** The server process that serves it. */
  readonly pid: number;
  rows<Row extends QueryResultRow>(statement: string, values?: readonly unknown[]): Promise<Row[]>;
  /** A column of the first row, as a number: the driver returns bigint as text. */
  number(statement: string, values?: readonly unknown[]): Promise<number>;
}

export async function openSession(url: string): Promise<Session> {
  const client = new Client(url);
  // A server that ends the session makes the next statement fail; the event is not needed.
  client.on("error", () => {});
  await client.connect();
  const query = async (statement: string, values: readonly unknown[] = []) =>
    (await client.query(statement, [...values])).rows;
  const number = async (statement: string, values?: readonly unknown[]) =>
    Number(Object.values((await query(statement, values))[0])[0]);
  return {
    pid: await number("SELECT pg_backend_pid()"),
    rows: query,
    number,
    [Symbol.asyncDispose]: () => client.end(),
  };
}

/** Resolves once a statement of `session` waits for a lock. */
export async function waitsForLock(session: Session, observer: Session): Promise<void> {
  await until(
    "it waits for a lock",
    async () =>
      (await observer.number("SELECT cardinality(pg_blocking_pids($1))", [session.pid])) > 0,
  );
}
