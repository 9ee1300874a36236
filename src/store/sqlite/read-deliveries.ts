import { deliveryId, parseDeliveryId, routeTag } from "../../model/ids.ts";
import type { AttemptView, DeliveryFilter, DeliveryPlace, DeliveryView, RouteBacklog, Unplanned } from "../views.ts";
import { type Names, stateCode, stateList, unpackEventId } from "./names.ts";
import type { Db } from "./open.ts";
import type { createReadEvents } from "./read-events.ts";

interface Row {
  event: number;
  route: number;
  state: number;
  attempts: number;
  replays: number;
  next_at: number | null;
  settled_at: number | null;
  reason: string | null;
  account: number;
  id: Buffer | string;
}

const select = `SELECT d.event, d.route, d.state, d.attempts, d.replays, d.next_at, d.settled_at, d.reason, e.account, e.id
  FROM deliveries d JOIN events e ON e.seq = d.event`;

export function createReadDeliveries(db: Db, names: Names, events: ReturnType<typeof createReadEvents>) {
  const ofEvent = db.prepare<[number], Row>(`${select} WHERE d.event = ? ORDER BY d.route`);
  const attemptsOf = db.prepare<
    [number, number],
    { number: number; at: number; took_ms: number; status: number | null; error: string | null; response: Buffer | null }
  >("SELECT number, at, took_ms, status, error, response FROM attempts WHERE event = ? AND route = ? ORDER BY number");

  function view(row: Row): DeliveryView {
    const eventId = unpackEventId(row.id);
    if (eventId === null) throw new Error(`delivery of event ${row.event} without an id`);
    const route = names.nameOf(row.route);
    return {
      id: deliveryId(names.nameOf(row.account), eventId, route),
      event: row.event,
      eventId,
      route,
      state: stateList[row.state] ?? "dead",
      attempts: row.attempts,
      replays: row.replays,
      nextAt: row.next_at,
      settledAt: row.settled_at,
      reason: row.reason,
    };
  }

  return {
    /** Newest events first. */
    list(filter: DeliveryFilter): DeliveryView[] {
      const sql: string[] = [];
      const values: Record<string, number> = { limit: filter.limit };
      if (filter.route !== undefined) {
        const route = names.find("route", filter.route);
        if (route === null) return [];
        sql.push("d.route = @route");
        values["route"] = route;
      }
      // The dead deliveries of a route have an index in the order of the list. SQLite would have to sort any other index for
      // one page, so the plus stops it from using one.
      const indexed = filter.state === "dead" && filter.route !== undefined;
      if (filter.state !== undefined) sql.push(`${indexed ? "" : "+"}d.state = ${stateCode[filter.state]}`);
      if (filter.event !== undefined) {
        sql.push("d.event = @event");
        values["event"] = filter.event;
      }
      if (filter.before !== undefined) {
        sql.push("d.event <= @beforeEvent AND (d.event, d.route) < (@beforeEvent, @beforeRoute)");
        values["beforeEvent"] = filter.before.event;
        values["beforeRoute"] = filter.before.route;
      }
      if (filter.after !== undefined) {
        sql.push("d.event > @after");
        values["after"] = filter.after;
      }
      const where = sql.length === 0 ? "" : `WHERE ${sql.join(" AND ")}`;
      return db.prepare<[typeof values], Row>(`${select} ${where} ORDER BY d.event DESC, d.route DESC LIMIT @limit`).all(values).map(view);
    },
    /** The position of a delivery in the list. The next page begins before it. */
    placeOf: ({ event, route }: { event: number; route: string }): DeliveryPlace => ({ event, route: names.find("route", route) ?? 0 }),
    attempts(delivery: { event: number; route: string }): AttemptView[] {
      const route = names.find("route", delivery.route);
      if (route === null) return [];
      return attemptsOf.all(delivery.event, route).map(({ took_ms, ...attempt }) => ({ ...attempt, tookMs: took_ms }));
    },
    /** Finds a delivery by its id. */
    find(id: string): DeliveryView | null {
      const parsed = parseDeliveryId(id);
      if (parsed === null) return null;
      for (const seq of events.seqsOf(parsed.eventId)) {
        for (const row of ofEvent.all(seq)) {
          if (routeTag(names.nameOf(row.account), names.nameOf(row.route)) === parsed.routeTag) return view(row);
        }
      }
      return null;
    },
  };
}

/** Counts open and dead deliveries by index. `countStats` counts all of them. */
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
    /** None: the transaction that accepts an event plans it. */
    unplanned: (): Unplanned => ({ events: 0, oldestAt: null }),
  };
}
