import { connect, type PostgresSettings } from "./connect.ts";

/** What decides whether a server keeps the relay's promises. Null: the user may not read it. */
export interface ServerFacts {
  /** Such as 180004. */
  readonly version: number;
  readonly versionText: string;
  readonly isReplica: boolean;
  readonly fsync: boolean;
  readonly fullPageWrites: boolean;
  /** `on`, `off`, `local`, `remote_write` or `remote_apply`. */
  readonly synchronousCommit: string;
  /** Standbys that a commit waits for; empty: none. */
  readonly synchronousStandbys: string;
  /** Standbys that are connected now. */
  readonly standbys: number | null;
  readonly connectionsLeft: number;
  /** The longest transaction that has not ended, and whose it is. */
  readonly longestTransaction: {
    readonly seconds: number;
    readonly pid: number;
    readonly application: string;
    readonly state: string;
  } | null;
  /** How far its clock is ahead of ours, in ms. */
  readonly skewMs: number;
  readonly roundTripMs: number;
  /** Of all tables and indexes of the relay, in bytes; null: it has none yet. */
  readonly bytes: number | null;
}

/** Reads what a server says of itself. Rejects with `StoreUnavailable` when it does not answer. */
export async function readServerFacts(settings: PostgresSettings): Promise<ServerFacts> {
  const session = await connect(settings, "free");
  const one = async (text: string, values: readonly unknown[] = []) => (await session.query({ name: "", text, values })).rows[0] ?? {};
  try {
    const sentAt = Date.now();
    const { now } = await one("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now");
    const roundTripMs = Date.now() - sentAt;
    const server = await one(`SELECT current_setting('server_version_num')::int AS version, current_setting('server_version') AS text,
      pg_is_in_recovery() AS replica, current_setting('fsync') AS fsync, current_setting('full_page_writes') AS pages,
      current_setting('synchronous_commit') AS sync, current_setting('synchronous_standby_names') AS names,
      current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend') AS left`);
    const standbys = await one("SELECT count(*)::int AS n FROM pg_stat_replication");
    const longest = await one(`SELECT extract(epoch FROM now() - xact_start)::float8 AS seconds, pid, application_name AS application, state
      FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'
      ORDER BY xact_start LIMIT 1`);
    const size = await one(
      `SELECT sum(pg_total_relation_size(c.oid))::float8 AS bytes FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = $1 AND c.relkind = 'r'`,
      [settings.schema],
    );
    return {
      version: Number(server["version"]),
      versionText: String(server["text"]),
      isReplica: server["replica"] === true,
      fsync: server["fsync"] === "on",
      fullPageWrites: server["pages"] === "on",
      synchronousCommit: String(server["sync"]),
      synchronousStandbys: String(server["names"]),
      standbys: typeof standbys["n"] === "number" ? standbys["n"] : null,
      connectionsLeft: Number(server["left"]),
      longestTransaction:
        longest["pid"] === undefined
          ? null
          : {
              seconds: Number(longest["seconds"]),
              pid: Number(longest["pid"]),
              application: String(longest["application"] ?? ""),
              state: String(longest["state"] ?? ""),
            },
      skewMs: Math.round(Number(now) - (sentAt + roundTripMs / 2)),
      roundTripMs,
      bytes: typeof size["bytes"] === "number" ? size["bytes"] : null,
    };
  } finally {
    await session.end();
  }
}
