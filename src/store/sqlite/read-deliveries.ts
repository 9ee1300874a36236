import { deliveryId, parseDeliveryId, routeTag } from "../../model/ids.ts";
import { parseMaskedDelivery } from "../../model/mask.ts";
import type { AttemptView, DeliveryCounts, DeliveryFilter, DeliveryPlace, DeliveryView } from "../views.ts";
import type { Db } from "./file.ts";
import { type Names, stateCode, stateList, unpackEventId } from "./names.ts";
import { joinConditions } from "./query.ts";
import type { createReadEvents } from "./read-events.ts";
import type { AttemptRow, DeliveryRow, EventRow } from "./rows.ts";

type Row = Omit<DeliveryRow, "subject" | "spent"> & Pick<EventRow, "account" | "id">;

const select = `SELECT d.event, d.route, d.state, d.attempts, d.replays, d.next_at, d.settled_at, d.reason, e.account, e.id
  FROM deliveries d JOIN events e ON e.seq = d.event`;

export function createReadDeliveries(db: Db, names: Names, events: ReturnType<typeof createReadEvents>) {
  const ofEvent = db.prepare<[number], Row>(`${select} WHERE d.event = ? ORDER BY d.route`);
  const attemptsOf = db.prepare<[number, number], AttemptRow>(
    "SELECT number, at, took_ms, status, error, response FROM attempts WHERE event = ? AND route = ? ORDER BY number",
  );

  const countsOf = db.prepare<[string], { event: number; state: number; count: number }>(
    "SELECT event, state, count(*) AS count FROM deliveries WHERE event IN (SELECT value FROM json_each(?)) GROUP BY event, state",
  );

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
    list(filter: DeliveryFilter): DeliveryView[] {
      const { state, event, before, after, limit } = filter;
      const route = filter.route === undefined ? undefined : names.find("route", filter.route);
      if (route === null) return [];
      // The dead deliveries of a route have an index in the order of the list. SQLite would have to sort any other index for
      // one page, so the plus stops it from using one.
      const plus = state === "dead" && route !== undefined ? "" : "+";
      const { where, values } = joinConditions(
        [
          ["d.route = @route", route],
          [`${plus}d.state = ${state && stateCode[state]}`, state !== undefined],
          ["d.event = @event", event],
          ["d.event <= @beforeEvent", before?.event],
          ["(d.event, d.route) < (@beforeEvent, @beforeRoute)", before?.route],
          ["d.event > @after", after],
        ],
        { limit },
      );
      return db
        .prepare<[typeof values], Row>(`${select} WHERE ${where} ORDER BY d.event DESC, d.route DESC LIMIT @limit`)
        .all(values)
        .map(view);
    },
    placeOf: ({ event, route }: { event: number; route: string }): DeliveryPlace => ({ event, route: names.find("route", route) ?? 0 }),
    attempts(delivery: { event: number; route: string }): AttemptView[] {
      const route = names.find("route", delivery.route);
      if (route === null) return [];
      return attemptsOf.all(delivery.event, route).map(({ took_ms, ...attempt }) => ({ ...attempt, tookMs: took_ms }));
    },
    counts(seqs: readonly number[]): Map<number, DeliveryCounts> {
      const found = new Map<number, DeliveryCounts>();
      for (const { event, state, count } of countsOf.all(JSON.stringify(seqs))) {
        found.set(event, { ...found.get(event), [stateList[state] ?? "dead"]: count });
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
