import type { DeliveryState } from "../../model/delivery.ts";
import { deliveries, events, queue, queueState } from "../schema/tables.ts";
import { find, look, query, together, type Work } from "../sql/ops.ts";
import { allOf, as, raw, type Sql, select, sql, typed } from "../sql/sql.ts";
import { addDeliveries, type DeliveryCounts, type DeliveryGroupView, type GroupFilter, noDeliveries } from "../views.ts";
import { byDead, byDue, isDead, isOpen, ofDelivery, ofEvent, openOfEvent, withEvent, wordOfOpen, wordOfSettled } from "./delivery-rows.ts";

const q = as(queue, "q");
const d = as(deliveries, "d");
const e = as(events, "e");
const received = look(events, ["seq"], ["received_at"]);
const count = typed<number>(sql`count(*)`);

type GroupState = Exclude<DeliveryState, "delivered">;

/** Undelivered deliveries by route, state and cause. Without conditions on events, an index alone is read. */
export function* groupDeliveries(filter: GroupFilter): Work<DeliveryGroupView[]> {
  const states = (["waiting", "held", "dead"] as const).filter((state) => filter.state === undefined || state === filter.state);
  const groups = (yield* together(states.map((state) => query(groupsOf(state, filter))))).flatMap((found, place) =>
    found.map((group) => ({ state: states[place] as GroupState, ...group })),
  );
  const [oldest, newest] = yield* together([
    find(
      received,
      groups.map((group) => [group.oldest]),
    ),
    find(
      received,
      groups.map((group) => [group.newest]),
    ),
  ]);
  return groups.map(({ state, route, cause, count }, place) => ({
    route,
    state,
    // A held delivery has no failed attempt since it was planned or replayed.
    cause: state === "held" ? null : cause,
    count,
    oldestAt: oldest[place]?.received_at ?? null,
    newestAt: newest[place]?.received_at ?? null,
  }));
}

function groupsOf(state: GroupState, filter: GroupFilter) {
  const condition = ofEvent(filter);
  const from = (table: Sql, rows: typeof q | typeof d, isOf: Sql): Sql =>
    sql`FROM ${table} ${condition === undefined ? undefined : withEvent(rows.event)}
      WHERE ${allOf(isOf, ofDelivery(rows, filter), condition)} GROUP BY ${rows.route}, ${rows.cause}`;
  return state === "dead"
    ? group(d)`${from(sql`deliveries d ${byDead}`, d, isDead)}`
    : group(q)`${from(sql`queue q ${byDue}`, q, isOpen(state))}`;
}

const group = (rows: typeof q | typeof d) =>
  select({
    route: rows.route,
    cause: rows.cause,
    count,
    oldest: typed<number>(sql`min(${rows.event})`),
    newest: typed<number>(sql`max(${rows.event})`),
  });

/** How many deliveries each event has in each state. */
export function* countDeliveries(seqs: readonly number[]): Work<ReadonlyMap<number, DeliveryCounts>> {
  const found = new Map<number, DeliveryCounts>();
  if (seqs.length === 0) return found;
  const [settled, open] = yield* together([
    query(
      select({ event: d.event, state: d.state, count, cause: typed<string | null>(sql`min(d.cause)`) })`FROM deliveries d
        WHERE d.event IN ${seqs} GROUP BY d.event, d.state`,
    ),
    query(
      select({ event: e.seq, state: q.state, count, cause: typed<string | null>(sql`min(q.cause)`) })`FROM ${openOfEvent}
        WHERE e.seq IN ${seqs} AND q.state <> ${raw(String(queueState.parked))} GROUP BY e.seq, q.state`,
    ),
  ]);
  const note = (event: number, state: DeliveryState, count: number, cause: string | null) =>
    found.set(event, addDeliveries(found.get(event) ?? noDeliveries, state, count, cause));
  for (const { event, state, count, cause } of settled) note(event, wordOfSettled(state), count, cause);
  for (const { event, state, count, cause } of open) note(event, wordOfOpen(state), count, cause);
  return found;
}
