import type { DatabaseFacts } from "../../model/database.ts";
import { first, rows, type Work } from "../sql/ops.ts";
import { sql } from "../sql/sql.ts";

/** What a server reports of itself. `now`: unix ms of this process's clock. */
export async function readDatabaseFacts(read: <T>(work: Work<T>) => Promise<T>, now: () => number): Promise<DatabaseFacts> {
  const times = [await readTime(read, now), await readTime(read, now), await readTime(read, now)];
  // The fastest answer says most of both.
  const [fastest] = times.toSorted((a, b) => a.roundTripMs - b.roundTripMs);
  return { ...(await read(serverFacts())), ...(fastest ?? { skewMs: 0, roundTripMs: 0 }) };
}

async function readTime(read: <T>(work: Work<T>) => Promise<T>, now: () => number) {
  const sentAt = now();
  const found = await read(first(sql<{ readonly now: number }>`SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now`));
  const roundTripMs = now() - sentAt;
  const middle = sentAt + roundTripMs / 2;
  return { roundTripMs, skewMs: Math.round((found?.now ?? middle) - middle) };
}

/** Servers that only speak PostgreSQL's protocol may lack a setting. */
function* serverFacts(): Work<Omit<DatabaseFacts, "skewMs" | "roundTripMs">> {
  const [server] = yield* rows(
    sql<Omit<DatabaseFacts, "skewMs" | "roundTripMs" | "transaction">>`SELECT
      current_setting('server_version') AS version, pg_is_in_recovery() AS "isReplica",
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
    sql<NonNullable<DatabaseFacts["transaction"]>>`SELECT extract(epoch FROM now() - xact_start)::float8 AS seconds, pid,
      application_name AS application, state, backend_xid IS NOT NULL AS "hasWritten"
      FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'
      ORDER BY backend_xid IS NULL, xact_start LIMIT 1`,
  );
  return { ...server, transaction };
}
