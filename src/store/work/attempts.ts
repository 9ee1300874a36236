import type {
  Attempt,
  DeliverySubject,
  DuePlaces,
  DueRange,
  QueuedDelivery,
  QueueKey,
  QueuePlace,
  SettledOutcome,
  Settling,
} from "../../model/delivery.ts";
import { origins } from "../../model/event.ts";
import { bucketOf, minuteMs } from "../../model/history.ts";
import { type Shard, wholeRoute } from "../../model/route-lease.ts";
import { unpackEventId, unpackHeaders } from "../schema/codes.ts";
import {
  attempts,
  deliveries,
  events,
  hydrations,
  queue,
  queueState,
  type RowOf,
  settledState,
  subjects,
} from "../schema/tables.ts";
import {
  change,
  compareTexts,
  find,
  first,
  insert,
  lock,
  look,
  removal,
  remove,
  rows,
  set,
  together,
  update,
  type Work,
} from "../sql/ops.ts";
import { as, type RowFrom, raw, type Sql, select, sql, typed } from "../sql/sql.ts";
import { type Counts, outcomeOf } from "./counts.ts";
import { briefOf } from "./hydrations.ts";
import { type Held, lostLeases } from "./leases.ts";
import { noteOfRoute } from "./state-rows.ts";

const q = as(queue, "q");
const dueKeys = select({ lane: q.lane, event: q.event, at: q.next_at });

/* On SQLite twice as fast as one statement with joins (measured), on PostgreSQL two round trips for a few deliveries. */
const waiting = look(
  queue,
  ["lane", "route", "event"],
  ["state", "next_at", "attempts", "spent", "replays", "cause"],
);
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
const about = look(
  subjects,
  ["seq"],
  ["type", "name", "service_id", "reference", "metadata", "registered_at"],
);
const hydration = look(hydrations, ["event"], ["state", "more"]);

export function* duePlaces({
  route,
  from,
  now,
  limit,
  shard,
}: DueRange): Work<readonly QueuePlace[]> {
  return yield* rows(
    dueKeys`FROM queue q
      WHERE q.state = ${queueState.waiting} AND q.route = ${route} AND q.next_at >= ${from} AND q.next_at <= ${now} ${ofShard(shard)}
      ORDER BY q.next_at, q.event LIMIT ${limit}`,
  );
}

export function* due(range: DueRange): Work<DuePlaces> {
  const places = yield* duePlaces(range);
  return { places, nextAt: places.length < range.limit ? yield* nextDueAt(range) : null };
}

/** On PostgreSQL, one look at an index for each route. */
export function* nextDue(
  routes: readonly string[],
  from: number,
): Work<Map<string, number | null>> {
  const route = typed<string>(raw("r.value", "r.unnest"));
  const found = yield* rows(select({ route, at: firstDue(route, from) })`FROM ${routes} r`);
  return new Map(found.map(({ route, at }) => [route, at]));
}

/** In the order of the keys, without those that no longer wait. */
export function* loadDeliveries(route: string, keys: readonly QueueKey[]): Work<QueuedDelivery[]> {
  const [places, bodies] = yield* together([
    find(waiting, keys, ({ lane, event }) => [lane, route, event]),
    find(sent, keys, ({ event }) => [event]),
  ]);
  const found: { readonly key: QueueKey; readonly place: WaitingRow; readonly event: SentRow }[] =
    [];
  for (const [index, key] of keys.entries()) {
    const [place, event] = [places[index], bodies[index]];
    if (place?.state === queueState.waiting && event !== undefined)
      found.push({ key, place, event });
  }
  const subject = found.flatMap(({ event }) => (event.subject === null ? [] : [[event.subject]]));
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

/** As `shardOf` numbers them. Not stored, so that another number of shards changes no row. */
const ofShard = (shard: Shard = wholeRoute): Sql | undefined =>
  shard.of === 1
    ? undefined
    : sql`AND abs(q.lane) % 65536 * 40503 % 65536 / 256 % ${shard.of} = ${shard.number}`;

/** Null: none waits. */
const firstDue = (route: Sql | string, from: number, shard?: Shard) =>
  typed<number | null>(sql`(SELECT min(q.next_at) FROM queue q
    WHERE q.state = ${queueState.waiting} AND q.route = ${route} AND q.next_at >= ${from} ${ofShard(shard)})`);

function* nextDueAt({ route, now, shard }: DueRange): Work<number | null> {
  return (yield* first(select({ at: firstDue(route, now + 1, shard) })``))?.at ?? null;
}

type WaitingRow = RowFrom<typeof waiting>;
type SentRow = RowFrom<typeof sent>;

function subjectOf(
  subject: RowFrom<typeof about>,
  { previous_status, status, moved }: SentRow,
): DeliverySubject {
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

const own = look(queue, ["lane", "route", "event"], ["event"], { lock: "update" });
const nextInLane = look(queue, ["lane", "route"], ["event", "state"], {
  order: "event",
  lock: "update",
});
/** A settlement of another attempt than the next one is late. */
const waits = change(queue, ["next_at", "cause", "spent"], {
  count: ["attempts"],
  only: ["attempts"],
});
const ends = removal(queue, { only: ["attempts"] });
const released = change(queue, ["state", "next_at"], { isLocked: true });

const leaseOf = ({ route, lease = route }: Settling): string => lease;

/** Each on its own: a settlement that is late or lost harms no other. */
export function* settle(
  batch: readonly Settling[],
  begin: () => Counts,
  held: Held,
): Work<readonly SettledOutcome[]> {
  const lost = held === null ? none : yield* lostLeases([...new Set(batch.map(leaseOf))], held);
  const outcomes: SettledOutcome[] = batch.map(() => ({ result: "lost" }));
  // Two workers lock in one order.
  const kept = batch
    .map((settling, place) => {
      const { delivery, route, event, attempt } = settling;
      return {
        settling,
        place,
        key: { lane: delivery.lane, route, event, attempts: attempt.number - 1 },
      };
    })
    .filter(({ settling }) => !lost.has(leaseOf(settling)));
  kept.sort(
    ({ key: a }, { key: b }) =>
      a.lane - b.lane ||
      compareTexts(a.route, b.route) ||
      a.event - b.event ||
      a.attempts - b.attempts,
  );
  const waiting = kept.filter(({ settling }) => settling.settled.to === "waiting");
  const ending = kept.filter(({ settling }) => settling.settled.to !== "waiting");
  // Two statements would each lock their own rows in order.
  const both = waiting.length > 0 && ending.length > 0 ? kept : [];
  const [, hasWaited, hasEnded] = yield* together([
    lock(own, both, ({ key: { lane, route, event } }) => [lane, route, event]),
    update(waits, waiting, ({ settling, key }) => ({ ...key, ...waitingRow(settling) })),
    remove(ends, ending, ({ key }) => key),
  ]);

  const waited = waiting.filter((_, index) => hasWaited[index]);
  const ended = ending.filter((_, index) => hasEnded[index]);
  const done = [...waited, ...ended];
  for (const { place } of kept) outcomes[place] = { result: "late" };
  for (const { place } of done) outcomes[place] = { result: "settled", released: null };
  // An unordered delivery is alone in its lane.
  const freed = ended.filter(({ key: { lane } }) => lane > 0);
  // A delivery that was accepted behind the removed one is seen only now.
  const [, , next] = yield* together([
    insert(deliveries, ended, ({ settling }) => deliveryRow(settling)),
    insert(attempts, waited, ({ settling: { event, route, attempt } }) => ({
      event,
      route,
      number: attempt.number,
      ...triedAs(attempt),
    })),
    find(nextInLane, freed, ({ key: { lane, route } }) => [lane, route]),
  ]);
  const out = freed.flatMap(({ key: { lane, route }, settling: { at }, place }, index) => {
    const row = next[index];
    return row?.state === queueState.held
      ? [{ place, due: { lane, route, event: row.event, at } }]
      : [];
  });
  for (const { place, due } of out) outcomes[place] = { result: "settled", released: due };
  yield* together([
    set(released, out, ({ due: { at, ...key } }) => ({
      ...key,
      state: queueState.waiting,
      next_at: at,
    })),
  ]);

  const counts = begin();
  for (const { settling } of done) {
    countSettled(counts, settling);
    const { stop, pause, opened, failing } = settling;
    if ([stop, pause, opened, failing].some((note) => note !== undefined))
      yield* noteOfRoute(settling);
  }
  yield* counts.write();
  return outcomes;
}

const none: ReadonlySet<string> = new Set();

/** A pause that the destination asked for does not use up the limit. */
const spentAfter = ({ settled, delivery }: Settling): number =>
  delivery.spent + (settled.to === "waiting" && settled.spares === true ? 0 : 1);

const causeAfter = ({ settled, attempt, delivery }: Settling): string | null =>
  settled.to === "delivered" ? delivery.cause : outcomeOf(attempt.result);

function waitingRow(settling: Settling) {
  const { settled } = settling;
  return {
    next_at: settled.to === "waiting" ? settled.nextAt : 0,
    cause: causeAfter(settling),
    spent: spentAfter(settling),
  };
}

function deliveryRow(settling: Settling): RowOf<typeof deliveries> {
  const { event, route, attempt, settled, at, delivery } = settling;
  return {
    event,
    route,
    account: delivery.account,
    lane: delivery.lane,
    state: settled.to === "dead" ? settledState.dead : settledState.delivered,
    attempts: attempt.number,
    spent: spentAfter(settling),
    replays: delivery.replays,
    settled_at: at,
    reason: settled.to === "dead" ? settled.reason : null,
    cause: causeAfter(settling),
    ...triedAs(attempt),
  };
}

function triedAs({ at, tookMs, result, response }: Attempt) {
  return {
    at,
    took_ms: Math.round(tookMs),
    status: result.kind === "answered" ? result.status : null,
    error: result.kind === "failed" ? result.error : null,
    response,
  };
}

function countSettled(
  counts: Counts,
  { route, attempt, settled, at, receivedAt, delivery: { account } }: Settling,
): void {
  const minute = Math.floor(at / minuteMs);
  counts.add(
    {
      at: Math.floor(attempt.at / minuteMs),
      account,
      series: "attempts",
      of: route,
      label: outcomeOf(attempt.result),
    },
    1,
  );
  if (settled.to === "dead")
    counts.add({ at: minute, account, series: "dead", of: route, label: "" }, 1);
  if (settled.to === "delivered" && receivedAt !== undefined)
    counts.add(
      {
        at: minute,
        account,
        series: "delivery",
        of: route,
        label: String(bucketOf(at - receivedAt)),
      },
      1,
    );
}
