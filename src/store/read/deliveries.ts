import type {
  AttemptView,
  DeliveryCounts,
  DeliveryGroupView,
  DeliveryView,
} from "../../model/answers/events.ts";
import { deliveryId, parseDeliveryId } from "../../model/ids.ts";
import { parseMaskedDelivery } from "../../model/mask.ts";
import type { DeliveryQuery, GroupQuery } from "../../model/queries.ts";
import type { DeliveryState } from "../../model/states.ts";
import { type DeliveryPlace, noDeliveries } from "../port.ts";
import { unpackEventId, wordOfSettled } from "../schema/codes.ts";
import { attempts, deliveries, events, queue, queueState, settledState } from "../schema/tables.ts";
import { find, look, query, rows, together, type Work } from "../sql/ops.ts";
import {
  allOf,
  as,
  hexOf,
  indexedBy,
  pick,
  type RowFrom,
  raw,
  routesOf,
  type Sql,
  select,
  sql,
  typed,
} from "../sql/sql.ts";
import { seqsOf } from "./events.ts";
import { type Conditions, conditionsOf, isBetween } from "./pages.ts";

type OfEvent = Pick<DeliveryQuery, "errorCode" | "from" | "to">;

type OfDelivery = Omit<DeliveryQuery, keyof OfEvent | "state" | "before" | "limit">;

export interface DeliveryFilter extends OfEvent, OfDelivery, Pick<DeliveryQuery, "state"> {
  readonly event?: number | undefined;
  readonly before?: DeliveryPlace | undefined;
  readonly after?: number | undefined;
  readonly limit: number;
}

/**
 * The cause of a dead delivery comes before that of a waiting one; of several, the first in order
 * of text.
 */
function addDeliveries(
  { deliveries, cause: known }: DeliveryCounts,
  state: DeliveryState,
  n: number,
  cause: string | null,
): DeliveryCounts {
  const sums = { ...deliveries, [state]: (deliveries[state] ?? 0) + n };
  const { dead } = deliveries;
  if (state === "dead" && dead === undefined) return { deliveries: sums, cause };
  if (state !== "dead" && (state !== "waiting" || dead !== undefined))
    return { deliveries: sums, cause: known };
  return {
    deliveries: sums,
    cause: known === null || (cause !== null && cause < known) ? cause : known,
  };
}

const q = as(queue, "q");
const d = as(deliveries, "d");
const e = as(events, "e");
const { waiting, held, exchange } = queueState;
const openCodes = {
  waiting: `${waiting}, ${exchange}`,
  held: `${held}`,
  any: `${waiting}, ${held}, ${exchange}`,
};

const isOpen = (state: keyof typeof openCodes): Sql => sql`q.state IN (${raw(openCodes[state])})`;
const isDead = raw(`d.state = ${settledState.dead}`);
const open = select({
  ...pick(q, "account", "event", "route", "state", "attempts", "replays", "cause"),
  id: hexOf(e.id),
  nextAt: q.next_at,
});
const settled = select({
  ...pick(d, "account", "event", "route", "state", "attempts", "replays", "reason", "cause"),
  id: hexOf(e.id),
  settledAt: d.settled_at,
});

const withEvent = (event: Sql): Sql =>
  sql`${raw("CROSS JOIN", "JOIN")} events e ON e.seq = ${event}`;
const byDue = indexedBy("queue_due");
const byDead = indexedBy("deliveries_dead");
/** `OFFSET 0` keeps PostgreSQL from joining the whole queue. */
const openOfEvent = raw(
  "events e CROSS JOIN queue q ON q.lane IN (e.subject, -e.seq) AND q.event = e.seq",
  `events e CROSS JOIN LATERAL
    (SELECT * FROM queue w WHERE w.lane = ANY (ARRAY[e.subject, -e.seq]) AND w.event = e.seq OFFSET 0) q`,
);

const plus = raw("+", "");
const eventConditions: Conditions<OfEvent> = {
  errorCode: (code) => sql`${plus}e.error_code = ${code}`,
  from: (time) => sql`${plus}e.received_at >= ${time}`,
  to: (time) => sql`${plus}e.received_at < ${time}`,
};
const ofEvent = (filter: OfEvent): Sql | undefined => conditionsOf(eventConditions, filter);

const deliveryConditions = (rows: typeof q | typeof d): Conditions<OfDelivery> => ({
  accounts: (accounts) => sql`${rows.account} IN ${accounts}`,
  route: (route) => sql`${rows.route} = ${route}`,
  cause: (cause) => (cause === null ? sql`${rows.cause} IS NULL` : sql`${rows.cause} = ${cause}`),
});
const ofDelivery = (rows: typeof q | typeof d, filter: OfDelivery): Sql | undefined =>
  conditionsOf(deliveryConditions(rows), filter);

const wordOfOpen = (code: number): DeliveryState => (code === held ? "held" : "waiting");

type Ends = Pick<DeliveryView, "state"> &
  Partial<Pick<DeliveryView, "nextAt" | "settledAt" | "reason">>;

function viewOf(
  { account, id, event, route, attempts, replays, cause }: Omit<OpenRow, "state" | "nextAt">,
  { state, nextAt = null, settledAt = null, reason = null }: Ends,
): DeliveryView {
  const eventId = unpackEventId(id);
  return {
    id: deliveryId(account, eventId, route),
    event,
    eventId,
    route,
    state,
    attempts,
    replays,
    nextAt,
    settledAt,
    reason,
    cause,
  };
}

type OpenRow = RowFrom<typeof open>;

const a = as(attempts, "a");

/**
 * The events of more open deliveries are not looked up: a page is found soon among the newest
 * events.
 */
const fewOpen = 2_000;

interface Range {
  readonly after: number;
  /** Exclusive. */
  readonly before: { readonly event: number; readonly route: string };
  readonly limit: number;
}

export function* listDeliveries(filter: DeliveryFilter): Work<DeliveryView[]> {
  const { event, state, before, limit } = filter;
  const end = before ?? { event: Number.MAX_SAFE_INTEGER, route: "" };
  const range: Range =
    event === undefined
      ? { after: filter.after ?? 0, before: end, limit }
      : {
          after: Math.max(event - 1, filter.after ?? 0),
          before: end.event <= event ? end : { event: event + 1, route: "" },
          limit,
        };
  let found: DeliveryView[] = [];
  for (const list of yield* listsOf(filter)) {
    const last = found[limit - 1];
    const more = yield* list({
      ...range,
      after: last === undefined ? range.after : Math.max(range.after, last.event - 1),
    });
    const all = new Map([...found, ...more].map((one) => [`${one.event}.${one.route}`, one]));
    found = [...all.values()].sort(byPlace).slice(0, limit);
  }
  return state === undefined ? found : found.filter((one) => one.state === state);
}

function byPlace(a: DeliveryView, b: DeliveryView): number {
  return b.event - a.event || (a.route < b.route ? 1 : -1);
}

type List = (range: Range) => Work<DeliveryView[]>;

function* listsOf(filter: DeliveryFilter): Work<List[]> {
  const { state, route, event } = filter;
  if (state === "dead" && event === undefined) {
    // Few deliveries are dead, and have an index by route.
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
  // One that settles between two reads of PostgreSQL is in the last.
  return state === undefined ? [ended, open, ended] : [open];
}

const deadRoutes = routesOf(sql`deliveries d ${byDead} WHERE ${isDead}`);

function* fewOpenOf(isOfState: Sql, route: string | undefined): Work<number[] | null> {
  const ofRoute = route === undefined ? undefined : sql`AND q.route = ${route}`;
  const found = yield* rows(
    select({
      event: q.event,
    })`FROM queue q ${byDue} WHERE ${isOfState} ${ofRoute} LIMIT ${raw(String(fewOpen + 1))}`,
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

function* listOpen(
  filter: DeliveryFilter,
  isOfState: Sql,
  range: Range,
  few: readonly number[] | null,
): Work<DeliveryView[]> {
  const { after, before, limit } = range;
  const seqs = few?.filter((seq) => seq > after && seq <= before.event);
  if (seqs?.length === 0) return [];
  const ofEvents =
    seqs === undefined ? isBetween(e.seq, after, before.event + 1) : sql`e.seq IN ${seqs}`;
  const found = yield* rows(
    open`FROM ${openOfEvent} WHERE ${allOf(ofEvents, isOfState, ofRows(q, filter, range), ofEvent(filter))}
      ORDER BY e.seq DESC, q.route DESC LIMIT ${limit}`,
  );
  return found.map((row) =>
    viewOf(row, {
      state: wordOfOpen(row.state),
      nextAt: row.state === waiting ? row.nextAt : null,
    }),
  );
}

function* listSettled(filter: DeliveryFilter, range: Range, index?: Sql): Work<DeliveryView[]> {
  const { state } = filter;
  const isSettled =
    index !== undefined
      ? isDead
      : state === undefined
        ? undefined
        : sql`${raw("+", "")}d.state = ${state === "dead" ? settledState.dead : settledState.delivered}`;
  const found = yield* rows(
    settled`FROM deliveries d ${index} ${withEvent(d.event)} WHERE ${allOf(isSettled, ofRows(d, filter, range), ofEvent(filter))}
      ORDER BY d.event DESC, d.route DESC LIMIT ${range.limit}`,
  );
  return found.map(({ state, ...row }) => viewOf(row, { ...row, state: wordOfSettled(state) }));
}

/** Oldest first. The last attempt of a settled delivery is stored with it. */
export function* attemptsOf({
  event,
  route,
}: {
  readonly event: number;
  readonly route: string;
}): Work<AttemptView[]> {
  const columns = {
    at: a.at,
    tookMs: a.took_ms,
    status: a.status,
    error: a.error,
    response: a.response,
  };
  const [earlier, [last]] = yield* together([
    query(
      select({
        number: a.number,
        ...columns,
      })`FROM attempts a WHERE a.event = ${event} AND a.route = ${route} ORDER BY a.number`,
    ),
    query(
      select({
        number: d.attempts,
        at: d.at,
        tookMs: d.took_ms,
        status: d.status,
        error: d.error,
        response: d.response,
      })`FROM deliveries d
        WHERE d.event = ${event} AND d.route = ${route}`,
    ),
  ]);
  const all =
    last === undefined || last.at === null
      ? earlier
      : [...earlier, { ...last, at: last.at, tookMs: last.tookMs ?? 0 }];
  return all.map((attempt) => ({
    ...attempt,
    response: attempt.response?.toString("utf8") ?? null,
  }));
}

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

const received = look(events, ["seq"], ["received_at"]);
const count = typed<number>(sql`count(*)`);

type GroupState = Exclude<DeliveryState, "delivered">;

/** Without conditions on events, an index alone is read. */
export function* groupDeliveries(filter: GroupQuery): Work<DeliveryGroupView[]> {
  const states = (["waiting", "held", "dead"] as const).filter(
    (state) => filter.state === undefined || state === filter.state,
  );
  const groups = (yield* together(states.map((state) => query(groupsOf(state, filter))))).flatMap(
    (found, place) => found.map((group) => ({ state: states[place] as GroupState, ...group })),
  );
  const [oldest, newest] = yield* together([
    find(received, groups, (group) => [group.oldest]),
    find(received, groups, (group) => [group.newest]),
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

function groupsOf(state: GroupState, filter: GroupQuery) {
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

export function* countDeliveries(
  seqs: readonly number[],
): Work<ReadonlyMap<number, DeliveryCounts>> {
  const found = new Map<number, DeliveryCounts>();
  if (seqs.length === 0) return found;
  const [settled, open] = yield* together([
    query(
      select({
        event: d.event,
        state: d.state,
        count,
        cause: typed<string | null>(sql`min(d.cause)`),
      })`FROM deliveries d
        WHERE d.event IN ${seqs} GROUP BY d.event, d.state`,
    ),
    query(
      select({
        event: e.seq,
        state: q.state,
        count,
        cause: typed<string | null>(sql`min(q.cause)`),
      })`FROM ${openOfEvent}
        WHERE e.seq IN ${seqs} AND q.state <> ${raw(String(queueState.parked))} GROUP BY e.seq, q.state`,
    ),
  ]);
  const note = (event: number, state: DeliveryState, count: number, cause: string | null) =>
    found.set(event, addDeliveries(found.get(event) ?? noDeliveries, state, count, cause));
  for (const { event, state, count, cause } of settled)
    note(event, wordOfSettled(state), count, cause);
  for (const { event, state, count, cause } of open) note(event, wordOfOpen(state), count, cause);
  return found;
}
