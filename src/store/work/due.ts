import type { DeliverySubject, StoredDelivery } from "../../model/delivery.ts";
import { origins } from "../../model/event.ts";
import { type HydrationBrief, hydrationStates } from "../../model/hydration.ts";
import { unpackEventId, unpackHeaders } from "../schema/codes.ts";
import type { RowOf } from "../schema/table.ts";
import { events, hydrations, queue, queueState, subjects } from "../schema/tables.ts";
import { ask, find, first, look, rows, type Work } from "../sql/ops.ts";
import { as, hexOf, select, sql, typed } from "../sql/sql.ts";

/** A waiting delivery with its lane, by which it is settled. */
export interface QueuedDelivery extends StoredDelivery {
  readonly lane: number;
  /** Of the last failed attempt. */
  readonly cause: string | null;
  /** When it became due, in unix ms. */
  readonly dueAt: number;
}

/** Where a look at a route's queue begins and ends: unix ms of `next_at`. A later `from` passes over the dead head of an index. */
export interface DueRange {
  readonly route: string;
  readonly from: number;
  readonly now: number;
  readonly limit: number;
}

const q = as(queue, "q");
const e = as(events, "e");
const s = as(subjects, "s");
const waiting = select({
  lane: q.lane,
  event: q.event,
  dueAt: q.next_at,
  attempts: q.attempts,
  spent: q.spent,
  replays: q.replays,
  cause: q.cause,
  account: e.account,
  id: hexOf(e.id),
  kind: e.kind,
  source: e.source,
  origin: e.origin,
  receivedAt: e.received_at,
  body: e.body,
  headers: e.headers,
  status: e.status,
  previousStatus: e.previous_status,
  moved: e.moved,
  type: typed<number | null>(s.type),
  name: typed<string | null>(s.name),
  serviceId: s.service_id,
  reference: s.reference,
  metadata: s.metadata,
  registeredAt: s.registered_at,
});
const hydration = look(hydrations, ["event"], ["state", "more"]);

const dueKeys = select({ lane: q.lane, event: q.event, at: q.next_at });

/** A place in the queue of a route. */
export interface QueueKey {
  readonly lane: number;
  readonly event: number;
}

/** The next due deliveries of a route with all that an attempt needs, in the order in which they became due. */
export function* dueDeliveries({ route, from, now, limit }: DueRange): Work<QueuedDelivery[]> {
  const found = yield* rows(
    waiting`FROM (
        SELECT * FROM queue w
        WHERE w.state = ${queueState.waiting} AND w.route = ${route} AND w.shard = 0 AND w.next_at >= ${from} AND w.next_at <= ${now}
        ORDER BY w.next_at, w.event LIMIT ${limit}
      ) q JOIN events e ON e.seq = q.event LEFT JOIN subjects s ON s.seq = e.subject ORDER BY q.next_at, q.event`,
  );
  return yield* withHydration(route, found);
}

/** The places of the next due deliveries, which an index has. */
export function* duePlaces({ route, from, now, limit }: DueRange): Work<readonly (QueueKey & { readonly at: number })[]> {
  return yield* rows(
    dueKeys`FROM queue q
      WHERE q.state = ${queueState.waiting} AND q.route = ${route} AND q.shard = 0 AND q.next_at >= ${from} AND q.next_at <= ${now}
      ORDER BY q.next_at, q.event LIMIT ${limit}`,
  );
}

/** Those of some deliveries of a route that wait, with all that an attempt needs, in any order. */
export function* loadDeliveries(route: string, keys: readonly QueueKey[]): Work<QueuedDelivery[]> {
  const found: WaitingRow[] = [];
  for (const { lane, event } of keys)
    found.push(
      ...(yield* rows(
        waiting`FROM queue q JOIN events e ON e.seq = q.event LEFT JOIN subjects s ON s.seq = e.subject
          WHERE q.lane = ${lane} AND q.route = ${route} AND q.event = ${event} AND q.state = ${queueState.waiting}`,
      )),
    );
  return yield* withHydration(route, found);
}

function* withHydration(route: string, found: readonly WaitingRow[]): Work<QueuedDelivery[]> {
  // Only events without a subject can be truncated.
  const alone = found.flatMap(({ type, event }) => (type === null ? [[event]] : []));
  const briefs = yield* ask(find(hydration, alone));
  const byEvent = new Map(alone.map(([event], place) => [event, briefs[place]]));
  return found.map((row) => {
    const { event, lane, dueAt, account, source, receivedAt, body, attempts, spent, replays, cause } = row;
    const brief = row.type === null ? byEvent.get(event) : undefined;
    return {
      route,
      event,
      lane,
      dueAt,
      account,
      source,
      eventId: unpackEventId(row.id),
      kind: row.kind ?? "",
      origin: origins[row.origin] ?? "webhook",
      receivedAt,
      body,
      headers: unpackHeaders(row.headers),
      attempts,
      spent,
      replays,
      cause,
      subject: subjectOf(row),
      ...(brief === undefined ? {} : { hydration: briefOf(brief) }),
    };
  });
}

/** When the next delivery of a route becomes due after `now`, in unix ms; null: none waits. */
export function* nextDueAt(route: string, now: number): Work<number | null> {
  const row = yield* first(
    select({
      at: typed<number | null>(sql`min(q.next_at)`),
    })`FROM queue q WHERE q.state = ${queueState.waiting} AND q.route = ${route} AND q.shard = 0 AND q.next_at > ${now}`,
  );
  return row?.at ?? null;
}

type WaitingRow = NonNullable<ReturnType<typeof waiting>["row"]>;

function subjectOf({
  type,
  name,
  serviceId,
  reference,
  metadata,
  registeredAt,
  previousStatus,
  status,
  moved,
}: WaitingRow): DeliverySubject | null {
  if (type === null || name === null) return null;
  return {
    type: type === 0 ? "message" : "run",
    key: name,
    tracked: registeredAt !== null,
    id: serviceId,
    reference,
    metadata: metadata === null ? null : (JSON.parse(metadata) as Record<string, unknown>),
    previousStatus,
    status,
    moved: moved === 1,
  };
}

function briefOf({ state, more }: Pick<RowOf<typeof hydrations>, "state" | "more">): HydrationBrief {
  const known = more === null ? {} : (JSON.parse(more) as Partial<HydrationBrief>);
  return {
    state: hydrationStates[state] ?? "given-up",
    reason: known.reason ?? null,
    polled: known.polled ?? 0,
    found: known.found ?? 0,
    unknown: known.unknown ?? null,
    candidates: null,
  };
}
