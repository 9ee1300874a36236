import type { RouteBacklog } from "../delivery-views.ts";
import type { Unplanned } from "../event-views.ts";
import { stateCode } from "./codes.ts";
import type { Names } from "./names.ts";
import type { Db } from "./open.ts";

/** Sums from the rows themselves: of the open ones and the dead, by index (`count-stats.ts` counts them all). */
export function createReadStats(db: Db, names: Names) {
  const waiting = db.prepare<[], { route: number; n: number; oldest: number | null }>(
    `SELECT route, count(*) AS n, min(next_at) AS oldest FROM deliveries WHERE state = ${stateCode.waiting} GROUP BY route`,
  );
  const held = db.prepare<[], { route: number; n: number }>(
    `SELECT route, count(*) AS n FROM deliveries WHERE state <= 1 AND state = ${stateCode.held} AND subject IS NOT NULL GROUP BY route`,
  );
  const dead = db.prepare<[], { route: number; n: number }>(
    `SELECT route, count(*) AS n FROM deliveries WHERE state = ${stateCode.dead} GROUP BY route`,
  );
  const stopped = db.prepare<[], { route: number; reason: string }>("SELECT route, reason FROM stopped");

  return {
    backlog(): RouteBacklog[] {
      const routes = new Map<number, Omit<RouteBacklog, "route">>();
      const of = (route: number): Omit<RouteBacklog, "route"> => {
        const known = routes.get(route);
        if (known !== undefined) return known;
        const entry: Omit<RouteBacklog, "route"> = { waiting: 0, held: 0, dead: 0, oldestDueAt: null, stopped: null };
        routes.set(route, entry);
        return entry;
      };
      for (const row of waiting.all()) Object.assign(of(row.route), { waiting: row.n, oldestDueAt: row.oldest });
      for (const row of held.all()) of(row.route).held = row.n;
      for (const row of dead.all()) of(row.route).dead = row.n;
      for (const row of stopped.all()) of(row.route).stopped = row.reason;
      return [...routes].map(([route, entry]) => ({ route: names.nameOf(route), ...entry }));
    },
    /** Whoever accepts an event plans it in the same transaction. */
    unplanned: (): Unplanned => ({ events: 0, oldestAt: null }),
  };
}
