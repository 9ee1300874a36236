import { parseDeliveryId } from "../../model/ids.ts";
import { parseMaskedDelivery } from "../../model/mask.ts";
import { attempts, deliveries, events, queue } from "../schema/tables.ts";
import { query, rows, together, type Work } from "../sql/ops.ts";
import { routesOf } from "../sql/routes.ts";
import { allOf, as, raw, type Sql, select, sql } from "../sql/sql.ts";
import type { AttemptView, DeliveryFilter, DeliveryView } from "../views.ts";
import {
  byDead,
  byDue,
  codeOfSettled,
  isDead,
  isOpen,
  ofDelivery,
  ofEvent,
  open,
  openOfEvent,
  openView,
  settled,
  settledView,
  withEvent,
} from "./delivery-rows.ts";
import { seqsOf } from "./events.ts";
import { isBetween } from "./pages.ts";

const q = as(queue, "q");
const d = as(deliveries, "d");
const e = as(events, "e");
const a = as(attempts, "a");

/** The events of so many open deliveries are looked up within milliseconds. Of more, one page is found soon among the newest events. */
const fewOpen = 2_000;

interface Range {
  readonly after: number;
  /** Exclusive; of its event, the deliveries to later routes are. */
  readonly before: { readonly event: number; readonly route: string };
  readonly limit: number;
}

/** Newest events first. */
export function* listDeliveries(filter: DeliveryFilter): Work<DeliveryView[]> {
  const { event, state, before, limit } = filter;
  const end = before ?? { event: Number.MAX_SAFE_INTEGER, route: "" };
  const range: Range =
    event === undefined
      ? { after: filter.after ?? 0, before: end, limit }
      : { after: Math.max(event - 1, filter.after ?? 0), before: end.event <= event ? end : { event: event + 1, route: "" }, limit };
  let found: DeliveryView[] = [];
  for (const list of yield* listsOf(filter)) {
    // Older ones than those of a full page are not read.
    const last = found[limit - 1];
    const more = yield* list({ ...range, after: last === undefined ? range.after : Math.max(range.after, last.event - 1) });
    const all = new Map([...found, ...more].map((one) => [`${one.event}.${one.route}`, one]));
    found = [...all.values()].sort(byPlace).slice(0, limit);
  }
  return state === undefined ? found : found.filter((one) => one.state === state);
}

function byPlace(a: DeliveryView, b: DeliveryView): number {
  return b.event - a.event || (a.route < b.route ? 1 : -1);
}

type List = (range: Range) => Work<DeliveryView[]>;

/** The lists that have what the filter selects, each in the order of the whole. */
function* listsOf(filter: DeliveryFilter): Work<List[]> {
  const { state, route, event } = filter;
  if (state === "dead" && event === undefined) {
    // Few deliveries are dead: in their index by route, each list is read without going through the others.
    const routes = route === undefined ? yield* rows(deadRoutes) : [{ route }];
    return routes.map(
      ({ route }) =>
        (range) =>
          listSettled({ ...filter, route }, range, byDead),
    );
  }
  const ended: List = (range) => listSettled(filter, range);
  if (state === "delivered" || state === "dead") return [ended];
  const isOfState = isOpen(state ?? "any");
  const few = event === undefined ? yield* fewOpenOf(isOfState, route) : null;
  const open: List = (range) => listOpen(filter, isOfState, range, few);
  // Last once more: one that settles between two reads of PostgreSQL is in one of them.
  return state === undefined ? [ended, open, ended] : [open];
}

const deadRoutes = routesOf(sql`deliveries d ${byDead} WHERE ${isDead}`);

/** The events of all open deliveries; null: they are many. */
function* fewOpenOf(isOfState: Sql, route: string | undefined): Work<number[] | null> {
  const ofRoute = route === undefined ? undefined : sql`AND q.route = ${route}`;
  const found = yield* rows(
    select({ event: q.event })`FROM queue q ${byDue} WHERE ${isOfState} ${ofRoute} LIMIT ${raw(String(fewOpen + 1))}`,
  );
  return found.length > fewOpen ? null : [...new Set(found.map(({ event }) => event))];
}

function ofRows(table: typeof q | typeof d, filter: DeliveryFilter, { after, before }: Range): Sql {
  return allOf(
    isBetween(table.event, after, before.event + 1),
    sql`(${table.event}, ${table.route}) < (${before.event}, ${before.route})`,
    ofDelivery(table, filter),
  );
}

function* listOpen(filter: DeliveryFilter, isOfState: Sql, range: Range, few: readonly number[] | null): Work<DeliveryView[]> {
  const { after, before, limit } = range;
  const seqs = few?.filter((seq) => seq > after && seq <= before.event);
  if (seqs?.length === 0) return [];
  const ofEvents = seqs === undefined ? isBetween(e.seq, after, before.event + 1) : sql`e.seq IN ${seqs}`;
  const found = yield* rows(
    open`FROM ${openOfEvent} WHERE ${allOf(ofEvents, isOfState, ofRows(q, filter, range), ofEvent(filter))}
      ORDER BY e.seq DESC, q.route DESC LIMIT ${limit}`,
  );
  return found.map(openView);
}

function* listSettled(filter: DeliveryFilter, range: Range, index?: Sql): Work<DeliveryView[]> {
  const { state } = filter;
  // Of the states, only `dead` has an index.
  const isSettled = index !== undefined ? isDead : state === undefined ? undefined : sql`${raw("+", "")}d.state = ${codeOfSettled(state)}`;
  const found = yield* rows(
    settled`FROM deliveries d ${index} ${withEvent(d.event)} WHERE ${allOf(isSettled, ofRows(d, filter, range), ofEvent(filter))}
      ORDER BY d.event DESC, d.route DESC LIMIT ${range.limit}`,
  );
  return found.map(settledView);
}

/** Oldest first. The last attempt of a settled delivery is stored with it. */
export function* attemptsOf({ event, route }: { readonly event: number; readonly route: string }): Work<AttemptView[]> {
  const columns = { at: a.at, tookMs: a.took_ms, status: a.status, error: a.error, response: a.response };
  const [earlier, [last]] = yield* together([
    query(select({ number: a.number, ...columns })`FROM attempts a WHERE a.event = ${event} AND a.route = ${route} ORDER BY a.number`),
    query(
      select({ number: d.attempts, at: d.at, tookMs: d.took_ms, status: d.status, error: d.error, response: d.response })`FROM deliveries d
        WHERE d.event = ${event} AND d.route = ${route}`,
    ),
  ]);
  if (last === undefined || last.at === null) return [...earlier];
  return [...earlier, { ...last, at: last.at, tookMs: last.tookMs ?? 0 }];
}

/** By its id or masked id. */
export function* findDelivery(id: string): Work<DeliveryView | null> {
  const [parsed, masked] = [parseDeliveryId(id), parseMaskedDelivery(id)];
  const tag = parsed?.routeTag ?? masked?.routeTag;
  if (tag === undefined) return null;
  for (const event of yield* seqsOf(parsed?.eventId ?? masked?.event ?? "")) {
    for (const delivery of yield* listDeliveries({ event, limit: Number.MAX_SAFE_INTEGER })) {
      if (parseDeliveryId(delivery.id)?.routeTag === tag) return delivery;
    }
  }
  return null;
}
