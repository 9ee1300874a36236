import { queue } from "../schema/tables.ts";
import { as, raw, type Sql, select, sql } from "../sql/sql.ts";

const q = as(queue, "q");
const byTime = raw("INDEXED BY queue_due", "");
const place = select({ lane: q.lane, route: q.route, event: q.event, at: q.next_at });

/** The routes with rows of the queue in a state: one look at the index for each. */
export function routesIn(state: number): Sql<{ readonly route: string }> {
  // In the text, for the sake of partial indexes.
  const isIn = raw(`q.state = ${state}`);
  const first = (after: Sql) => sql`(SELECT q.route FROM queue q ${byTime} WHERE ${isIn} ${after} ORDER BY q.route LIMIT 1)`;
  return sql`WITH RECURSIVE r(route) AS (SELECT ${first(sql``)} UNION ALL
      SELECT ${first(sql`AND q.route > r.route`)} FROM r WHERE r.route IS NOT NULL)
    SELECT route FROM r WHERE route IS NOT NULL`;
}

/** The rows of a route in a state whose time has come, the earliest first. */
export const overdue = (state: number, route: string, now: number, limit: number) =>
  place`FROM queue q ${byTime}
    WHERE ${raw(`q.state = ${state}`)} AND q.route = ${route} AND q.shard = 0 AND q.next_at <= ${now}
    ORDER BY q.next_at, q.event LIMIT ${limit}`;
