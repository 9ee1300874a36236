import type { DeliverySubject, DuePlaces, DueRange, QueuedDelivery, QueueKey, QueuePlace } from "../../model/delivery.ts";
import { origins } from "../../model/event.ts";
import { type Shard, wholeRoute } from "../../model/route-lease.ts";
import { unpackEventId, unpackHeaders } from "../schema/codes.ts";
import { events, hydrations, queue, queueState, subjects } from "../schema/tables.ts";
import { find, first, look, rows, together, type Work } from "../sql/ops.ts";
import { as, type Sql, select, sql, typed } from "../sql/sql.ts";
import { briefOf } from "./hydrations.ts";

export type { QueuedDelivery } from "../../model/delivery.ts";

const q = as(queue, "q");
const dueKeys = select({ lane: q.lane, event: q.event, at: q.next_at });

/*
 * Look-ups by key. On SQLite they are twice as fast as one statement with joins (measured), and on PostgreSQL a few
 * deliveries take two round trips.
 */
const waiting = look(queue, ["lane", "route", "event"], ["state", "next_at", "attempts", "spent", "replays", "cause"]);
const sent = look(
  events,
  ["seq"],
  [
    "account",
    "id",
    "kind",
    "source",
    "origin",
    "received_at",
    "format",
    "body",
    "headers",
    "subject",
    "status",
    "previous_status",
    "moved",
  ],
);
const about = look(subjects, ["seq"], ["type", "name", "service_id", "reference", "metadata", "registered_at"]);
const hydration = look(hydrations, ["event"], ["state", "more"]);

/** The places of the next due deliveries, which an index has. */
export function* duePlaces({ route, from, now, limit, shard }: DueRange): Work<readonly QueuePlace[]> {
  return yield* rows(
    dueKeys`FROM queue q
      WHERE q.state = ${queueState.waiting} AND q.route = ${route} AND q.next_at >= ${from} AND q.next_at <= ${now} ${ofShard(shard)}
      ORDER BY q.next_at, q.event LIMIT ${limit}`,
  );
}

/** The places of the next due deliveries, and when the next one becomes due. */
export function* due(range: DueRange): Work<DuePlaces> {
  const places = yield* duePlaces(range);
  return { places, nextAt: places.length < range.limit ? yield* nextDueAt(range) : null };
}

/** The next due deliveries of a route with all that an attempt needs, in the order in which they became due. */
export function* dueDeliveries(range: DueRange): Work<QueuedDelivery[]> {
  return yield* loadDeliveries(range.route, yield* duePlaces(range));
}

/** Those of some deliveries of a route that wait, with all that an attempt needs, in their order. */
export function* loadDeliveries(route: string, keys: readonly QueueKey[]): Work<QueuedDelivery[]> {
  const [places, bodies] = yield* together([
    find(
      waiting,
      keys.map(({ lane, event }) => [lane, route, event]),
    ),
    find(
      sent,
      keys.map(({ event }) => [event]),
    ),
  ]);
  const found: { readonly key: QueueKey; readonly place: WaitingRow; readonly event: SentRow }[] = [];
  for (const [index, key] of keys.entries()) {
    const [place, event] = [places[index], bodies[index]];
    if (place?.state === queueState.waiting && event !== undefined) found.push({ key, place, event });
  }
  const subject = found.flatMap(({ event }) => (event.subject === null ? [] : [[event.subject]]));
  // Only events without a subject can be truncated.
  const alone = found.flatMap(({ key, event }) => (event.subject === null ? [[key.event]] : []));
  const [named, briefs] = yield* together([find(about, subject), find(hydration, alone)]);
  let [nextNamed, nextBrief] = [0, 0];
  return found.map(({ key: { lane, event: seq }, place, event }) => {
    const subject = event.subject === null ? undefined : named[nextNamed++];
    const brief = event.subject === null ? briefs[nextBrief++] : undefined;
    return {
      route,
      event: seq,
      lane,
      dueAt: place.next_at,
      account: event.account,
      source: event.source,
      eventId: unpackEventId((event.id ?? noId).toString("hex")),
      kind: event.kind ?? "",
      origin: origins[event.origin] ?? "webhook",
      receivedAt: event.received_at,
      ...(event.format === null ? {} : { format: event.format }),
      body: event.body,
      headers: unpackHeaders(event.headers),
      attempts: place.attempts,
      spent: place.spent,
      replays: place.replays,
      cause: place.cause,
      subject: subject === undefined ? null : subjectOf(subject, event),
      ...(brief === undefined ? {} : { hydration: briefOf(brief) }),
    };
  });
}

const noId = Buffer.alloc(0);

/** The lanes of a shard, as `shardOf` numbers them. Not stored, so that another number of shards changes no row. */
const ofShard = (shard: Shard = wholeRoute): Sql | undefined =>
  shard.of === 1 ? undefined : sql`AND abs(q.lane) % 65536 * 40503 % 65536 / 256 % ${shard.of} = ${shard.number}`;

/** When the next delivery of a route becomes due after `now`, in unix ms; null: none waits. */
function* nextDueAt({ route, now, shard }: DueRange): Work<number | null> {
  const row = yield* first(
    select({
      at: typed<number | null>(sql`min(q.next_at)`),
    })`FROM queue q WHERE q.state = ${queueState.waiting} AND q.route = ${route} AND q.next_at > ${now} ${ofShard(shard)}`,
  );
  return row?.at ?? null;
}

type WaitingRow = NonNullable<(typeof waiting)["row"]>;
type SentRow = NonNullable<(typeof sent)["row"]>;

function subjectOf(subject: NonNullable<(typeof about)["row"]>, { previous_status, status, moved }: SentRow): DeliverySubject {
  const { type, name, service_id, reference, metadata, registered_at } = subject;
  return {
    type: type === 0 ? "message" : "run",
    key: name,
    tracked: registered_at !== null,
    id: service_id,
    reference,
    metadata: metadata === null ? null : (JSON.parse(metadata) as Record<string, unknown>),
    previousStatus: previous_status,
    status,
    moved: moved === 1,
  };
}
