import type { DeliveryState } from "../../event/delivery.ts";
import type { Disposition } from "../../event/plan.ts";
import { dispositionList, stateCode, stateList } from "./codes.ts";
import type { Names } from "./names.ts";
import type { Db } from "./open.ts";

export interface Stats {
  readonly dispositions: Readonly<Record<Disposition, number>>;
  readonly duplicates: number;
  readonly deliveries: Readonly<Record<DeliveryState, number>>;
  /** Attempts made, and those that led to nothing yet. */
  readonly attempts: { readonly made: number; readonly failed: number };
}

export interface RouteBacklog {
  route: string;
  waiting: number;
  held: number;
  dead: number;
  /** Unix ms at which the oldest waiting delivery became or becomes due. */
  oldestDueAt: number | null;
  /** Why its destination is stopped; null when it is not. */
  stopped: string | null;
}

/** Sums from the rows themselves. `stats` reads every row; `backlog` only the open ones, by index. */
export function createReadStats(db: Db, names: Names) {
  const byDisposition = db.prepare<[], { disposition: number; n: number; duplicates: number }>(
    "SELECT disposition, count(*) AS n, sum(duplicates) AS duplicates FROM events GROUP BY disposition",
  );
  const byState = db.prepare<[], { state: number; n: number }>("SELECT state, count(*) AS n FROM deliveries GROUP BY state");
  const attempts = db.prepare<[], { made: number; failed: number }>(
    "SELECT count(*) AS made, count(*) FILTER (WHERE status IS NULL OR status NOT BETWEEN 200 AND 299) AS failed FROM attempts",
  );
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
    stats(): Stats {
      const dispositions = Object.fromEntries(dispositionList.map((word) => [word, 0])) as Record<Disposition, number>;
      const deliveries = Object.fromEntries(stateList.map((word) => [word, 0])) as Record<DeliveryState, number>;
      let duplicates = 0;
      for (const row of byDisposition.all()) {
        const word = dispositionList[row.disposition];
        if (word !== undefined) dispositions[word] = row.n;
        duplicates += row.duplicates;
      }
      for (const row of byState.all()) {
        const word = stateList[row.state];
        if (word !== undefined) deliveries[word] = row.n;
      }
      return { dispositions, duplicates, deliveries, attempts: attempts.get() ?? { made: 0, failed: 0 } };
    },
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
  };
}
