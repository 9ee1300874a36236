import { deliveryId, parseDeliveryId, routeTag } from "../../model/ids.ts";
import { parseMaskedDelivery } from "../../model/mask.ts";
import {
  type AttemptView,
  addDeliveries,
  type DeliveryCounts,
  type DeliveryFilter,
  type DeliveryGroupView,
  type DeliveryPlace,
  type DeliveryView,
  type GroupFilter,
  noDeliveries,
  type OfEvent,
} from "../views.ts";
import type { Db } from "./file.ts";
import { type Names, stateCode, stateList, unpackEventId } from "./names.ts";
import { type Condition, joinConditions } from "./query.ts";
import type { createReadEvents } from "./read-events.ts";
import type { AttemptRow, DeliveryRow, EventRow } from "./rows.ts";

type Row = Omit<DeliveryRow, "subject" | "spent"> & Pick<EventRow, "account" | "id">;

const columns = "d.event, d.route, d.state, d.attempts, d.replays, d.next_at, d.settled_at, d.reason, d.cause, e.account, e.id";
const selectFrom = (deliveries: string) => `SELECT ${columns} FROM ${deliveries} JOIN events e ON e.seq = d.event`;
const select = selectFrom("deliveries d");

/** The indexes of open deliveries and the conditions that they need. They are not in the order of the list. */
const openIndexes = {
  waiting: { index: "deliveries_due", needs: `d.state = ${stateCode.waiting}` },
  held: { index: "deliveries_open", needs: `d.state <= 1 AND d.subject IS NOT NULL AND d.state = ${stateCode.held}` },
};
/** So many open deliveries are sorted for a page within milliseconds. Of more, one page is found soon without their index. */
const fewOpen = 2_000;

interface GroupRow {
  route: number;
  cause: string | null;
  count: number;
  oldest: number;
  newest: number;
}

/** Of groups. A held delivery has no failed attempt since it was planned or replayed. */
const groupIndexes = { waiting: "deliveries_due", held: "deliveries_open", dead: "deliveries_dead" } as const;

/** The plus stops SQLite from beginning with the events: the deliveries are in the order of the list. */
const eventConditions = ({ errorCode, from, to }: OfEvent): Condition[] => [
  ["+e.error_code = @errorCode", errorCode],
  ["+e.received_at >= @from", from],
  ["+e.received_at < @to", to],
];

/**
 * The latest `limit` rows of all routes. `read` gives the latest of a route after an event: once `limit` rows are found, older
 * ones are not read from the next routes.
 */
export function mergeRoutes<Found extends Pick<Row, "event" | "route">>(
  routes: readonly number[],
  limit: number,
  read: (route: number, after: number) => Found[],
): Found[] {
  let found: Found[] = [];
  for (const route of routes) {
    const last = found[limit - 1];
    const more = read(route, last === undefined ? -1 : last.event - 1);
    if (more.length > 0) found = [...found, ...more].sort((a, b) => b.event - a.event || b.route - a.route).slice(0, limit);
  }
  return found;
}

export function createReadDeliveries(db: Db, names: Names, events: ReturnType<typeof createReadEvents>) {
  const ofEvent = db.prepare<[number], Row>(`${select} WHERE d.event = ? ORDER BY d.route`);
  const attemptsOf = db.prepare<[number, number], AttemptRow>(
    "SELECT number, at, took_ms, status, error, response FROM attempts WHERE event = ? AND route = ? ORDER BY number",
  );

  const countsOf = db.prepare<[string], { event: number; state: number; count: number; cause: string | null }>(
    `SELECT event, state, count(*) AS count, min(cause) AS cause FROM deliveries
     WHERE event IN (SELECT value FROM json_each(?)) GROUP BY event, state`,
  );

  /** Prepared with the conditions that a filter needs. */
  function countGroups(state: keyof typeof groupIndexes, route: number | undefined, ofEvent: OfEvent): GroupRow[] {
    const cause = state === "held" ? "NULL" : "d.cause";
    const conditions = eventConditions(ofEvent);
    const { where, values } = joinConditions([
      ["d.subject IS NOT NULL AND d.state <= 1", state === "held"],
      [`d.state = ${stateCode[state]}`, true],
      ["d.route = @route", route],
      ...conditions,
    ]);
    // Without conditions on events, the index alone is read.
    const join = conditions.some(([, value]) => value !== undefined) ? "JOIN events e ON e.seq = d.event" : "";
    return db
      .prepare<[typeof values], GroupRow>(
        `SELECT d.route, ${cause} AS cause, count(*) AS count, min(d.event) AS oldest, max(d.event) AS newest
         FROM deliveries d INDEXED BY ${groupIndexes[state]} ${join} WHERE ${where} GROUP BY d.route, ${cause}`,
      )
      .all(values);
  }
  const receivedAt = db.prepare<[number], number>("SELECT received_at FROM events WHERE seq = ?").pluck();

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
      cause: row.cause,
    };
  }

  const routes = db.prepare<[], number>("SELECT id FROM names WHERE kind = 'route'").pluck();
  const countOpen = ({ index, needs }: (typeof openIndexes)["held"]) =>
    db
      .prepare<[], number>(`SELECT count(*) FROM (SELECT 1 FROM deliveries d INDEXED BY ${index} WHERE ${needs} LIMIT ${fewOpen + 1})`)
      .pluck();
  const counts = { waiting: countOpen(openIndexes.waiting), held: countOpen(openIndexes.held) };

  /** The index of a state's deliveries, if they are few. */
  function fewIn(state: DeliveryFilter["state"]): (typeof openIndexes)["held"] | null {
    if (state !== "waiting" && state !== "held") return null;
    return (counts[state].get() ?? 0) <= fewOpen ? openIndexes[state] : null;
  }

  function list(filter: Omit<DeliveryFilter, "route">, route: number | undefined): Row[] {
    const { state, event, before, after, limit } = filter;
    // The dead deliveries of a route have an index in the order of the list. SQLite would have to sort any other index for
    // one page, so the plus stops it from using one.
    const plus = state === "dead" && route !== undefined ? "" : "+";
    const few = event === undefined ? fewIn(state) : null;
    const { where, values } = joinConditions(
      [
        ["d.route = @route", route],
        [few === null ? `${plus}d.state = ${state && stateCode[state]}` : few.needs, state !== undefined],
        ["d.cause IS @cause", filter.cause],
        ["d.event = @event", event],
        ["d.event <= @beforeEvent", before?.event],
        ["(d.event, d.route) < (@beforeEvent, @beforeRoute)", before && Number(before.route)],
        ["d.event > @after", after],
        ...eventConditions(filter),
      ],
      { limit },
    );
    const from = few === null ? select : selectFrom(`deliveries d INDEXED BY ${few.index}`);
    return db.prepare<[typeof values], Row>(`${from} WHERE ${where} ORDER BY d.event DESC, d.route DESC LIMIT @limit`).all(values);
  }

  return {
    list(filter: DeliveryFilter): DeliveryView[] {
      const route = filter.route === undefined ? undefined : names.find("route", filter.route);
      if (route === null) return [];
      if (filter.state !== "dead" || route !== undefined) return list(filter, route).map(view);
      // Few deliveries are dead: in their index by route, each list is read without going through the others.
      const { after = -1, limit } = filter;
      return mergeRoutes(routes.all(), limit, (each, from) => list({ ...filter, after: Math.max(after, from) }, each)).map(view);
    },
    placeOf: ({ event, route }: { event: number; route: string }): DeliveryPlace => ({ event, route: names.find("route", route) ?? 0 }),
    attempts(delivery: { event: number; route: string }): AttemptView[] {
      const route = names.find("route", delivery.route);
      if (route === null) return [];
      return attemptsOf.all(delivery.event, route).map(({ took_ms, ...attempt }) => ({ ...attempt, tookMs: took_ms }));
    },
    groups({ route: name, state: only, ...ofEvent }: GroupFilter): DeliveryGroupView[] {
      const route = name === undefined ? undefined : names.find("route", name);
      if (route === null) return [];
      return (["waiting", "held", "dead"] as const)
        .filter((state) => only === undefined || state === only)
        .flatMap((state) => countGroups(state, route, ofEvent).map((row) => ({ state, ...row })))
        .map(({ state, route: id, oldest, newest, ...group }) => ({
          route: names.nameOf(id),
          state,
          ...group,
          oldestAt: receivedAt.get(oldest) ?? null,
          newestAt: receivedAt.get(newest) ?? null,
        }));
    },
    counts(seqs: readonly number[]): Map<number, DeliveryCounts> {
      const found = new Map<number, DeliveryCounts>();
      for (const { event, state, count, cause } of countsOf.all(JSON.stringify(seqs))) {
        found.set(event, addDeliveries(found.get(event) ?? noDeliveries, stateList[state] ?? "dead", count, cause));
      }
      return found;
    },
    /** Finds a delivery by its id. */
    find(id: string): DeliveryView | null {
      const parsed = parseDeliveryId(id);
      const masked = parseMaskedDelivery(id);
      const tag = parsed?.routeTag ?? masked?.routeTag;
      for (const seq of events.seqsOf(parsed?.eventId ?? masked?.event ?? "")) {
        for (const row of ofEvent.all(seq)) {
          if (routeTag(names.nameOf(row.account), names.nameOf(row.route)) === tag) return view(row);
        }
      }
      return null;
    },
  };
}
