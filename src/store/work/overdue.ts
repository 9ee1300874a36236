import { queue } from "../schema/tables.ts";
import { routesOf } from "../sql/routes.ts";
import { as, raw, select, sql } from "../sql/sql.ts";

const q = as(queue, "q");
const byTime = raw("INDEXED BY queue_due", "");
const place = select({ lane: q.lane, route: q.route, event: q.event, at: q.next_at });

/** The routes with rows of the queue in a state, which stands in the text for the sake of partial indexes. */
export const routesIn = (state: number) => routesOf(sql`queue q ${byTime} WHERE q.state = ${raw(String(state))}`);

/** The rows of a route in a state whose time has come, the earliest first. */
export const overdue = (state: number, route: string, now: number, limit: number) =>
  place`FROM queue q ${byTime}
    WHERE ${raw(`q.state = ${state}`)} AND q.route = ${route} AND q.next_at <= ${now}
    ORDER BY q.next_at, q.event LIMIT ${limit}`;
