import { spanText } from "./unit-text.ts";

/**
 * What decides whether a PostgreSQL server keeps the relay's promises. Null: the relay's user may
 * not see it.
 */
export interface DatabaseFacts {
  readonly version: string;
  readonly isReplica: boolean;
  /** By default_transaction_read_only, of the server, the database or the user. */
  readonly isReadOnly: boolean;
  readonly fsync: boolean;
  readonly fullPageWrites: boolean;
  readonly synchronousCommit: string;
  /** Standbys that a commit waits for; empty: none. */
  readonly synchronousStandbys: string;
  readonly standbys: number;
  readonly connectedSynchronous: number | null;
  readonly connectionsLeft: number;
  readonly seesSessions: boolean;
  /** The longest open transaction, one that has written before all others. */
  readonly transaction: {
    readonly seconds: number;
    readonly pid: number;
    readonly application: string;
    readonly state: string;
    readonly hasWritten: boolean;
  } | null;
  /** How far its clock is ahead of this process's, in ms. */
  readonly skewMs: number;
  readonly roundTripMs: number;
  readonly bytes: number;
}

export interface DatabaseRisk {
  readonly condition: "database-unsafe" | "database-standby" | "database-strained";
  readonly of: string;
  readonly text: string;
  readonly cure: string;
}

const connectionsOfProcess = 10;
const limits = { roundTripMs: 50, skewMs: 1_000, writtenSeconds: 60, openSeconds: 600 };

export function databaseRisks(facts: DatabaseFacts): DatabaseRisk[] {
  const {
    fsync,
    fullPageWrites,
    synchronousCommit,
    synchronousStandbys,
    standbys,
    connectedSynchronous,
  } = facts;
  const { connectionsLeft, transaction, skewMs, roundTripMs } = facts;
  const risks: DatabaseRisk[] = [];
  const find = (condition: DatabaseRisk["condition"], of: string, text: string, cure: string) =>
    void risks.push({ condition, of, text, cure });
  const unsafe = (of: string, loses: string) =>
    find("database-unsafe", of, `${of} is off: ${loses}.`, `Set ${of} = on.`);
  const strain = (of: string, text: string, cure: string) =>
    find("database-strained", of, text, cure);

  if (!fsync)
    unsafe("fsync", "a crash of PostgreSQL's machine may lose or damage acknowledged events");
  if (!fullPageWrites)
    unsafe("full_page_writes", "a crash of PostgreSQL's machine may damage acknowledged events");
  if (synchronousCommit === "off")
    unsafe("synchronous_commit", "a crash of PostgreSQL may lose the last acknowledged events");

  const failover = (why: string, cure: string) =>
    find(
      "database-standby",
      "standbys",
      `${why}: a failover may lose the last acknowledged events.`,
      cure,
    );
  if (synchronousStandbys === "") {
    if (standbys > 0)
      failover("The standbys of PostgreSQL are asynchronous", "Set synchronous_standby_names.");
  } else if (synchronousCommit === "local" || synchronousCommit === "off")
    failover(
      `synchronous_commit is ${synchronousCommit}, so commits do not wait for the standbys`,
      "Set synchronous_commit = on.",
    );
  else if (connectedSynchronous === 0)
    strain(
      "standbys",
      "No synchronous standby is connected: each commit waits for one, and webhooks get 503.",
      "Start a standby, or change synchronous_standby_names.",
    );

  if (connectionsLeft < connectionsOfProcess)
    strain(
      "connections",
      `PostgreSQL has ${connectionsLeft} connections left, and a process of the relay uses up to ${connectionsOfProcess}. A process without a connection answers 503.`,
      "Raise max_connections, or end sessions that nobody needs.",
    );
  if (
    transaction !== null &&
    transaction.seconds >= (transaction.hasWritten ? limits.writtenSeconds : limits.openSeconds)
  ) {
    const { seconds, pid, application, state, hasWritten } = transaction;
    const session = `Session ${pid}${application === "" ? "" : ` of ${application}`} (${state})`;
    const means = hasWritten
      ? "listeners wait behind it when an event's number is missing"
      : "deleted rows keep their disk";
    strain(
      "transaction",
      `${session} has had a ${hasWritten ? "writing " : ""}transaction open for ${spanText(seconds * 1000)}: ${means}.`,
      `To end it: SELECT pg_terminate_backend(${pid}).`,
    );
  }
  if (Math.abs(skewMs) > limits.skewMs) {
    const way = skewMs < 0 ? "behind" : "ahead of";
    strain(
      "clock",
      `The clock of PostgreSQL is ${spanText(skewMs)} ${way} this host's. Events and retries have the time of PostgreSQL.`,
      "Set both clocks by NTP.",
    );
  }
  if (roundTripMs > limits.roundTripMs)
    strain(
      "distance",
      `PostgreSQL answers in ${roundTripMs} ms, and each webhook waits for several answers.`,
      "Run the relay near the server.",
    );
  return risks;
}
