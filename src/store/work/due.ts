import type { DeliverySubject, StoredDelivery } from "../../model/delivery.ts";
import { origins } from "../../model/event.ts";
import { type HydrationBrief, hydrationStates } from "../../model/hydration.ts";
import type { EventId } from "../../model/ids.ts";
import { unpackEventId } from "../schema/codes.ts";
import type { RowOf } from "../schema/table.ts";
import { events, hydrations, queue, queueState, subjects } from "../schema/tables.ts";
import { find, first, look, rows, together, type Work } from "../sql/ops.ts";
import { as, select, sql, typed } from "../sql/sql.ts";

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
const waiting = select({
  lane: q.lane,
  event: q.event,
  next_at: q.next_at,
  attempts: q.attempts,
  spent: q.spent,
  replays: q.replays,
  cause: q.cause,
});
const sentEvent = look(
  events,
  ["seq"],
  ["seq", "account", "id", "kind", "source", "origin", "received_at", "body", "headers", "subject", "status", "previous_status", "moved"],
);
const sentSubject = look(subjects, ["seq"], ["type", "name", "service_id", "reference", "metadata", "registered_at"]);
const hydration = look(hydrations, ["event"], ["state", "more"]);

type SentEvent = Pick<
  RowOf<typeof events>,
  | "seq"
  | "account"
  | "id"
  | "kind"
  | "source"
  | "origin"
  | "received_at"
  | "body"
  | "headers"
  | "subject"
  | "status"
  | "previous_status"
  | "moved"
>;
type SentSubject = Pick<RowOf<typeof subjects>, "type" | "name" | "service_id" | "reference" | "metadata" | "registered_at">;

/** The next due deliveries of a route with all that an attempt needs, in the order in which they became due. */
export function* dueDeliveries({ route, from, now, limit }: DueRange): Work<QueuedDelivery[]> {
  const found = yield* rows(
    waiting`FROM queue q WHERE q.state = ${queueState.waiting} AND q.route = ${route} AND q.shard = 0 AND q.next_at >= ${from} AND q.next_at <= ${now}
      ORDER BY q.next_at, q.event LIMIT ${limit}`,
  );
  const [sent] = yield* together([
    find(
      sentEvent,
      found.map(({ event }) => [event]),
    ),
  ]);
  const about = sent.flatMap((event) => (event?.subject == null ? [] : [[event.subject]]));
  // Only events without a subject can be truncated.
  const alone = sent.flatMap((event) => (event === undefined || event.subject !== null ? [] : [[event.seq]]));
  const [people, briefs] = yield* together([find(sentSubject, about), find(hydration, alone)]);
  const bySubject = new Map(about.map(([seq], place) => [seq, people[place]]));
  const byEvent = new Map(alone.map(([seq], place) => [seq, briefs[place]]));
  return found.flatMap(({ lane, event: seq, next_at: dueAt, attempts, spent, replays, cause }, place) => {
    const event = sent[place];
    if (event === undefined) return [];
    const brief = byEvent.get(seq);
    return [
      {
        route,
        event: seq,
        lane,
        dueAt,
        account: event.account,
        source: event.source,
        eventId: unpackEventId(event.id) as EventId,
        kind: event.kind ?? "",
        origin: origins[event.origin] ?? "webhook",
        receivedAt: event.received_at,
        body: event.body,
        headers: event.headers === null ? {} : (JSON.parse(event.headers) as Record<string, string>),
        attempts,
        spent,
        replays,
        cause,
        subject: subjectOf(event, event.subject === null ? undefined : bySubject.get(event.subject)),
        ...(brief === undefined ? {} : { hydration: briefOf(brief) }),
      },
    ];
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

function subjectOf({ status, previous_status, moved }: SentEvent, row: SentSubject | undefined): DeliverySubject | null {
  if (row === undefined) return null;
  return {
    type: row.type === 0 ? "message" : "run",
    key: row.name,
    tracked: row.registered_at !== null,
    id: row.service_id,
    reference: row.reference,
    metadata: row.metadata === null ? null : (JSON.parse(row.metadata) as Record<string, unknown>),
    previousStatus: previous_status,
    status,
    moved: moved === 1,
  };
}

function briefOf({ state, more }: Pick<RowOf<typeof hydrations>, "state" | "more">): HydrationBrief {
  const known = more === null ? {} : (JSON.parse(more) as Partial<HydrationBrief>);
  return {
    state: hydrationStates[state] ?? "given-up",
    reason: known.reason ?? null,
    asked: known.asked ?? 0,
    found: known.found ?? 0,
    unknown: known.unknown ?? null,
    candidates: null,
  };
}
