import { type Sql, sql } from "./sql.ts";

/** The routes that rows have, with one look at an index for each. `from`: a table and a condition. */
export function routesOf(from: Sql): Sql<{ readonly route: string }> {
  const next = (after?: Sql) => sql`(SELECT route FROM ${from} ${after} ORDER BY route LIMIT 1)`;
  return sql`WITH RECURSIVE r(route) AS (SELECT ${next()} UNION ALL SELECT ${next(sql`AND route > r.route`)} FROM r WHERE r.route IS NOT NULL)
    SELECT route FROM r WHERE route IS NOT NULL`;
}
