import type { DeliveryState } from "../../model/states.ts";
import type {
  DueDelivery,
  ReplayCursor,
  Replayed,
  ReplayFilter,
  ReplayFound,
  Retried,
} from "../port.ts";
import { wordOfSettled } from "../schema/codes.ts";
import {
  attempts,
  deliveries,
  events,
  never,
  queue,
  queueState,
  type RowOf,
  settledState,
} from "../schema/tables.ts";
import {
  ask,
  change,
  compareTexts,
  find,
  insert,
  look,
  removal,
  remove,
  rows,
  rowsBy,
  together,
  update,
  type Work,
} from "../sql/ops.ts";
import { as, indexedBy, pick, raw, select } from "../sql/sql.ts";
import { laneKey, occupied, openInLane, type Queued, sortedLanes } from "./plans.ts";
import { lockSubjects } from "./subject-rows.ts";

type Settled = RowOf<typeof deliveries>;

interface Replaying {
  readonly event: number;
  readonly route: string;
  readonly states: readonly DeliveryState[];
  readonly at: number;
}

export type Retrying = Omit<Replaying, "states">;

export interface ReplayingFound {
  readonly found: ReplayFound["found"];
  readonly states: readonly DeliveryState[];
  readonly at: number;
}

const anyState: readonly DeliveryState[] = ["waiting", "held", "delivered", "dead"];

const subjectOf = look(events, ["seq"], ["subject"]);
const open = look(queue, ["lane", "route", "event"], ["lane", "route", "event", "state"], {
  lock: "update",
});
const settled = look(deliveries, ["event", "route"], deliveries.names as (keyof Settled)[], {
  lock: "update",
});
const sooner = change(queue, ["next_at"]);
const again = removal(deliveries);

/** Null: not found. */
export const retry = (batch: readonly Retrying[]): Work<readonly (Retried | null)[]> =>
  requeue(batch.map((one) => ({ ...one, states: anyState })));

export function* replay(batch: readonly ReplayingFound[]): Work<readonly Replayed[]> {
  const all = batch.flatMap(({ found, states, at }) =>
    found.map((one) => ({ ...one, states, at })),
  );
  const outcomes = (yield* requeue(all)).values();
  return batch.map(({ found }) => {
    const done = found.flatMap(() => outcomes.next().value ?? []);
    return { replayed: done.length, due: done.flatMap(({ due }) => due ?? []) };
  });
}

/**
 * A settled delivery waits again under its old id, behind what is open in its lane. The locks of
 * the subjects keep others from adding to a lane; settling does not wait for them.
 */
function* requeue(asked: readonly Replaying[]): Work<(Retried | null)[]> {
  const wanted = new Map<string, Replaying>();
  for (const one of asked) if (!wanted.has(keyOf(one))) wanted.set(keyOf(one), one);
  const seqs = [...new Set(asked.map(({ event }) => event))];
  const rows = yield* ask(find(subjectOf, seqs, (seq) => [seq]));
  const subjects = new Map(seqs.map((seq, place) => [seq, rows[place]?.subject ?? null]));
  yield* lockSubjects([...subjects.values()].filter((subject) => subject !== null));

  const all = [...wanted.values()];
  const ofQueue = all.filter(({ states }) => states.includes("waiting"));
  const lanes = sortedLanes(
    ofQueue.flatMap(({ event, route }) => lanesOf(event, subjects.get(event) ?? null, route)),
  );
  const ofSettled = all
    .filter(({ states }) => states.includes("dead") || states.includes("delivered"))
    .sort((a, b) => a.event - b.event || compareTexts(a.route, b.route));
  // Looked for in a later statement: a delivery that settled meanwhile is there now.
  const [waiting, ended] = yield* together([
    find(open, lanes),
    find(settled, ofSettled, ({ event, route }) => [event, route]),
  ]);
  const openRows = rowsBy(waiting, keyOf);
  const settledRows = rowsBy(ended, keyOf);
  const requeued = all.flatMap((one) => {
    const row = settledRows.get(keyOf(one));
    return row !== undefined && one.states.includes(wordOfSettled(row.state))
      ? [{ row, at: one.at }]
      : [];
  });

  const ordered = requeued.filter(({ row }) => row.lane > 0);
  const behind = sortedLanes([
    ...new Map(
      ordered.map(({ row: { lane, route } }) => [laneKey(lane, route), [lane, route] as const]),
    ).values(),
  ]);
  const busy = occupied(behind, yield* ask(find(openInLane, behind)));

  const outcomes = new Map<string, Retried>();
  const queued: Queued[] = [];
  for (const { row, at } of requeued) {
    const lane = laneKey(row.lane, row.route);
    const isHeld = busy.has(lane);
    busy.add(lane);
    queued.push(queuedAgain(row, isHeld, at));
    outcomes.set(
      keyOf(row),
      isHeld ? { state: "held", due: null } : { state: "waiting", due: dueOf(row, at) },
    );
  }
  const hastened = ofQueue.flatMap((one) => {
    const row = openRows.get(keyOf(one));
    if (row?.state === queueState.held && one.states.includes("held"))
      outcomes.set(keyOf(row), { state: "held", due: null });
    if (row?.state !== queueState.waiting) return [];
    outcomes.set(keyOf(row), { state: "waiting", due: dueOf(row, one.at) });
    return [{ ...row, next_at: one.at }];
  });
  yield* together([
    update(sooner, hastened),
    insert(
      attempts,
      requeued.flatMap(({ row }) => lastAttempt(row) ?? []),
    ),
    remove(again, requeued, ({ row }) => row),
    insert(queue, queued),
  ]);
  return asked.map((one) => {
    const outcome = outcomes.get(keyOf(one)) ?? null;
    // The same delivery a second time finds the state that the first one left.
    return outcome !== null &&
      (wanted.get(keyOf(one)) === one || one.states.includes(outcome.state))
      ? outcome
      : null;
  });
}

const keyOf = ({ event, route }: Pick<Replaying, "event" | "route">): string =>
  `${event}\0${route}`;
const dueOf = (
  { event, route, lane }: Pick<Settled, "event" | "route" | "lane">,
  at: number,
): DueDelivery => ({ route, event, at, lane });

/** The order of a route may have changed since it was planned. */
function lanesOf(event: number, subject: number | null, route: string): [number, string, number][] {
  return [...(subject === null ? [] : [subject]), -event].map((lane) => [lane, route, event]);
}

function queuedAgain(
  { lane, route, event, account, attempts, replays }: Settled,
  isHeld: boolean,
  at: number,
): Queued {
  return {
    lane,
    route,
    event,
    account,
    state: isHeld ? queueState.held : queueState.waiting,
    next_at: isHeld ? never : at,
    attempts,
    spent: 0,
    replays: replays + 1,
    cause: null,
  };
}

function lastAttempt({
  event,
  route,
  attempts: number,
  at,
  took_ms,
  status,
  error,
  response,
}: Settled): RowOf<typeof attempts> | null {
  return at === null
    ? null
    : { event, route, number, at, took_ms: took_ms ?? 0, status, error, response };
}

interface Walked {
  readonly lane: number;
  readonly route: string;
  readonly event: number;
  readonly state: number;
  readonly account: string;
  readonly cause: string | null;
  readonly at: number;
}

const q = as(queue, "q");
const d = as(deliveries, "d");
const openRows = select({
  ...pick(q, "account", "lane", "route", "event", "state", "cause"),
  at: q.next_at,
});
const settledRows = select({
  ...pick(d, "account", "lane", "route", "event", "state", "cause"),
  at: d.settled_at,
});
const eventRow = look(events, ["seq"], ["received_at", "error_code"]);

/** Each step reads `limit` rows and goes only forward, so that it meets no delivery twice. */
export function* findReplay(
  filter: ReplayFilter,
  cursor: ReplayCursor,
  now: number,
  limit: number,
): Work<ReplayFound> {
  const { since } = cursor;
  const isOfWaiting = filter.states.includes("waiting");
  const walked = isOfWaiting
    ? yield* walkQueue(cursor, limit)
    : yield* walkSettled(filter, cursor, limit);
  const stored: readonly number[] = isOfWaiting
    ? [queueState.waiting]
    : filter.states.flatMap((state) =>
        state === "dead" || state === "delivered" ? settledState[state] : [],
      );
  const found = walked.filter(
    ({ state, at, route, cause, account }) =>
      stored.includes(state) &&
      // A settlement in the future was written under a wrong clock.
      (isOfWaiting ? at > now : at <= since || at > now) &&
      (filter.accounts === undefined || filter.accounts.includes(account)) &&
      (filter.route === undefined || route === filter.route) &&
      (filter.cause === undefined || cause === filter.cause),
  );
  const end = walked.at(-1);
  return {
    found: (yield* ofEvents(found, filter)).map(({ event, route }) => ({ event, route })),
    cursor:
      end === undefined || walked.length < limit
        ? null
        : { since, lane: end.lane, route: end.route, event: end.event },
  };
}

/**
 * Along the key, because the time of a waiting delivery changes. Backwards: of unordered ones the
 * oldest event comes first.
 */
function walkQueue({ lane, route, event }: ReplayCursor, limit: number): Work<readonly Walked[]> {
  return rows(
    openRows`FROM queue q WHERE (q.lane, q.route, q.event) < (${event === 0 ? never : lane}, ${route}, ${event})
      ORDER BY q.lane DESC, q.route DESC, q.event DESC LIMIT ${limit}`,
  );
}

/** Only dead deliveries have an index by route. */
function walkSettled(
  { states }: ReplayFilter,
  { route, event }: ReplayCursor,
  limit: number,
): Work<readonly Walked[]> {
  if (states.every((state) => state === "dead"))
    return rows(
      settledRows`FROM deliveries d ${indexedBy("deliveries_dead")}
        WHERE d.state = ${raw(String(settledState.dead))} AND (d.route, d.event) > (${route}, ${event})
        ORDER BY d.route, d.event LIMIT ${limit}`,
    );
  return rows(
    settledRows`FROM deliveries d WHERE (d.event, d.route) > (${event}, ${route}) ORDER BY d.event, d.route LIMIT ${limit}`,
  );
}

function* ofEvents(
  found: readonly Walked[],
  { errorCode, from, to }: ReplayFilter,
): Work<readonly Walked[]> {
  if (errorCode === undefined && from === undefined && to === undefined) return found;
  const stored = yield* ask(find(eventRow, found, ({ event }) => [event]));
  return found.filter((_, place) => {
    const row = stored[place];
    return (
      row !== undefined &&
      (errorCode === undefined || row.error_code === errorCode) &&
      (from === undefined || row.received_at >= from) &&
      (to === undefined || row.received_at < to)
    );
  });
}
