import type { ReplayCursor, ReplayFilter, ReplayFound } from "../replay-filters.ts";
import { stateCode } from "./codes.ts";
import type { Names } from "./names.ts";
import type { Db } from "./open.ts";

interface Row {
  event: number;
  route: number;
  matches: number;
}

/**
 * One pass over the settled deliveries, `limit` rows looked at in each call (about a microsecond each),
 * whether they match or not: a filter that matches nothing must not hold up receiving either. The pass
 * only goes forward, so that a delivery that settles again meanwhile is not met twice.
 */
export function createReplayWalk(db: Db, names: Names) {
  return function look(filter: ReplayFilter, cursor: ReplayCursor, now: number, limit: number): ReplayFound {
    const route = filter.route === undefined ? undefined : names.find("route", filter.route);
    if (route === null) return { found: [], cursor: null };
    const values: Record<string, number | string> = { ...cursor, now, limit };
    const conditions = [
      `d.state IN (${filter.states.map((state) => stateCode[state]).join(", ")})`,
      // A time that is still to come was written under a wrong clock, not during this walk.
      "(d.settled_at <= @since OR d.settled_at > @now)",
    ];
    if (route !== undefined) {
      conditions.push("d.route = @onlyRoute");
      values["onlyRoute"] = route;
    }
    for (const [name, condition] of [
      ["errorCode", "e.error_code = @errorCode"],
      ["from", "e.received_at >= @from"],
      ["to", "e.received_at < @to"],
    ] as const) {
      const value = filter[name];
      if (value === undefined) continue;
      conditions.push(condition);
      values[name] = value;
    }
    const rows = db.prepare<[typeof values], Row>(statement(filter, conditions.join(" AND "))).all(values);
    const last = rows.at(-1);
    return {
      found: rows.filter(({ matches }) => matches === 1).map(({ event, route }) => ({ event, route: names.nameOf(route) })),
      cursor: last === undefined || rows.length < limit ? null : { since: cursor.since, event: last.event, route: last.route },
    };
  };
}

/** The dead have an index of their own, by route; everything else is met in the order of acceptance. */
function statement(filter: ReplayFilter, condition: string): string {
  const onlyDead = filter.states.every((state) => state === "dead");
  const looked = onlyDead
    ? `SELECT event, route, state, settled_at FROM deliveries INDEXED BY deliveries_dead
       WHERE state = ${stateCode.dead} AND (route, event) > (@route, @event) ORDER BY route, event LIMIT @limit`
    : `SELECT event, route, state, settled_at FROM deliveries
       WHERE (event, route) > (@event, @route) ORDER BY event, route LIMIT @limit`;
  const ofEvent = filter.errorCode !== undefined || filter.from !== undefined || filter.to !== undefined;
  const joined = ofEvent ? "LEFT JOIN events e ON e.seq = d.event" : "";
  const order = onlyDead ? "d.route, d.event" : "d.event, d.route";
  return `SELECT d.event, d.route, coalesce(${condition}, 0) AS matches FROM (${looked}) d ${joined} ORDER BY ${order}`;
}
