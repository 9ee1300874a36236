import type { SeqRange } from "../read/pages.ts";
import { codeOf } from "../schema/codes.ts";
import {
  attempts,
  deliveries,
  events,
  hydrations,
  ids,
  polls,
  state,
  subjects,
  whereDerived,
} from "../schema/tables.ts";
import {
  ask,
  find,
  first,
  insertMissing,
  lock,
  look,
  query,
  type Removal,
  removal,
  remove,
  rows,
  together,
  type Work,
} from "../sql/ops.ts";
import { as, indexedBy, raw, select, sql, typed } from "../sql/sql.ts";
import { purgeHours, rollUp } from "./counts.ts";
import { idRow, keptMs } from "./quarantine.ts";
import { databaseNow } from "./state.ts";
import { notePurged } from "./state-rows.ts";
import { lockSubjects, type SubjectRow } from "./subject-rows.ts";

/** Milliseconds. */
export interface RetentionTimes {
  readonly events: number;
  readonly ignored: number;
  readonly deliveries: number;
  readonly messages: number;
  readonly history: number;
}

export interface Purged {
  readonly events: number;
  readonly deliveries: number;
  readonly messages: number;
  /** All old rows were looked at, and the freed space is returned to the disk. */
  readonly done: boolean;
}

const nothing: Purged = { events: 0, deliveries: 0, messages: 0, done: false };

/** A phase ends when it read fewer rows than it might. `after`: a seq. */
interface Step {
  readonly read: number;
  readonly after?: number;
  readonly purged?: Partial<Purged>;
}

interface Asked {
  readonly after: number;
  readonly now: number;
  readonly keep: RetentionTimes;
  readonly limit: number;
}

const phases: readonly ((asked: Asked) => Work<Step>)[] = [
  purgeIgnored,
  purgeEvents,
  purgeSubjects,
  purgeIds,
  purgeState,
  function* minutes({ now, limit }) {
    return { read: yield* rollUp(now, limit) };
  },
  function* hours({ now, keep, limit }) {
    return { read: yield* purgeHours(now, keep.history, limit) };
  },
];

/**
 * How long upkeep may hold the thread that receives, and the rows between two looks at the clock.
 */
const turn = { ms: 2, rows: 50 };

const start = { phase: 0, after: 0 };

/**
 * Few rows a call, so that receiving waits for one small transaction. Open deliveries stay at any
 * age, and so do their events and messages.
 */
export function createRetention(
  write: <T>(make: () => Work<T>) => Promise<T>,
  giveBack?: (pages: number) => boolean,
) {
  let reached = start;

  function* work(
    from: typeof start,
    now: number,
    keep: RetentionTimes,
    limit: number,
  ): Work<{ sum: Purged; place: typeof start }> {
    const endAt = performance.now() + turn.ms;
    const atOnce = giveBack === undefined ? limit : Math.min(turn.rows, limit);
    const sum = { ...nothing };
    let place = from;
    for (let taken = 0; taken < limit; taken += atOnce) {
      const most = Math.min(atOnce, limit - taken);
      const phase = phases[place.phase];
      if (phase === undefined) {
        if (giveBack?.(most) !== true) return { sum: { ...sum, done: true }, place: start };
      } else {
        const {
          read,
          after = place.after,
          purged = {},
        } = yield* phase({ after: place.after, now, keep, limit: most });
        place = read < most ? { phase: place.phase + 1, after: 0 } : { ...place, after };
        for (const name of ["events", "deliveries", "messages"] as const)
          sum[name] += purged[name] ?? 0;
      }
      if (performance.now() >= endAt) break;
    }
    return { sum, place };
  }

  return async function purge(now: number, keep: RetentionTimes, limit: number): Promise<Purged> {
    const { sum, place } = await write(() => work(reached, now, keep, limit));
    reached = place;
    return sum;
  };
}

const e = as(events, "e");
const d = as(deliveries, "d");
const a = as(attempts, "a");
const s = as(subjects, "s");
const t = as(state, "t");
const i = as(ids, "i");

const endedEvent = removal(events, { isLocked: true });
const ignoredEvent = removal(events, { only: ["disposition"] });
const endedHydration = removal(hydrations);
const settledDelivery = removal(deliveries, { only: ["settled_at"] });
const endedAttempt = removal(attempts, { isLocked: true });
const endedSubject = removal(subjects, { isLocked: true });
const endedPoll = removal(polls);
const endedId = removal(ids);
const endedState = removal(state, { only: ["until"] });

const aboutSubject = look(events, ["subject"], ["seq"], { where: "subject IS NOT NULL" });
const derivedId = look(events, ["seq"], ["id", "seq", "received_at"], { where: whereDerived });
const ownEvent = look(events, ["seq"], ["seq"], { lock: "update" });
/** Its number must not be used again. */
const greatestOf = (table: typeof events | typeof subjects) =>
  first(select({ seq: typed<number | null>(raw("max(x.seq)")) })`FROM ${raw(table.name)} x`);

/** Backfill may route one meanwhile. */
function* purgeIgnored({ now, keep, limit }: Asked): Work<Step> {
  const before = now - keep.ignored;
  const greatest = (yield* greatestOf(events))?.seq ?? 0;
  const { ignored } = codeOf.disposition;
  const found = yield* rows(
    select({ seq: e.seq })`FROM events e ${indexedBy("events_ignored")}
      WHERE e.disposition = ${raw(String(ignored))} AND e.received_at < ${before} AND e.seq < ${greatest}
      ORDER BY e.received_at LIMIT ${limit}`,
  );
  if (found.length === 0) return { read: 0 };
  yield* notePurged("events", before);
  const sorted = found
    .map(({ seq }) => ({ seq, disposition: ignored }))
    .sort((a, b) => a.seq - b.seq);
  return {
    read: found.length,
    purged: { events: yield* removeEvents(ignoredEvent, sorted, before > now - keptMs) },
  };
}

/** `isEarly`: senders still repeat, so derived ids stay. */
function* removeEvents(
  how: Removal,
  seqs: readonly { readonly seq: number }[],
  isEarly: boolean,
): Work<number> {
  if (isEarly) {
    const found = yield* ask(find(derivedId, seqs, ({ seq }) => [seq]));
    const kept = found.flatMap((row) =>
      row?.id == null ? [] : [idRow(row.id, row.seq, row.received_at)],
    );
    yield insertMissing(
      ids,
      kept.sort((a, b) => a.id.compare(b.id)),
    );
  }
  const gone = yield* ask(remove(how, seqs));
  const hydrated = seqs.filter((_, place) => gone[place]).map(({ seq }) => ({ event: seq }));
  yield remove(endedHydration, hydrated);
  return hydrated.length;
}

function* purgeEvents({ after, now, keep, limit }: Asked): Work<Step> {
  const walked = yield* rows(
    select({
      seq: e.seq,
      receivedAt: e.received_at,
    })`FROM events e WHERE e.seq > ${after} ORDER BY e.seq LIMIT ${limit}`,
  );
  const horizon = now - Math.min(keep.events, keep.deliveries);
  const young = walked.findIndex(({ receivedAt }) => receivedAt >= horizon);
  const old = young === -1 ? walked : walked.slice(0, young);
  const last = old.at(-1)?.seq ?? after;
  const read = young === -1 ? walked.length : 0;
  if (old.length === 0) return { read };
  const deliveries = yield* purgeDeliveries({ after, last }, now - keep.deliveries);
  const ended = old
    .filter(({ receivedAt }) => receivedAt < now - keep.events)
    .map(({ seq }) => seq);
  return {
    read,
    after: last,
    purged: { deliveries, events: yield* purgeEnded(ended, now, now - keep.events) },
  };
}

function* purgeDeliveries({ after, last }: SeqRange, before: number): Work<number> {
  const found = yield* rows(
    select({ event: d.event, route: d.route, settled_at: d.settled_at })`FROM deliveries d
      WHERE d.event > ${after} AND d.event <= ${last} AND d.settled_at < ${before} ORDER BY d.event, d.route`,
  );
  if (found.length === 0) return 0;
  yield* notePurged("deliveries", before);
  // A delivery that goes out again meanwhile keeps its attempts.
  const [gone] = yield* together([remove(settledDelivery, found)]);
  const ended = new Set(found.filter((_, place) => gone[place]).map(deliveryKey));
  const tried = yield* rows(
    select({
      event: a.event,
      route: a.route,
      number: a.number,
    })`FROM attempts a WHERE a.event > ${after} AND a.event <= ${last}`,
  );
  yield remove(
    endedAttempt,
    tried.filter((row) => ended.has(deliveryKey(row))),
  );
  return ended.size;
}

const deliveryKey = ({
  event,
  route,
}: {
  readonly event: number;
  readonly route: string;
}): string => `${event}\0${route}`;

/** A delivery that goes out again meanwhile is in one of the tables. */
const inUse = select({
  seq: e.seq,
  settled: typed<number | null>(sql`(SELECT 1 FROM deliveries d WHERE d.event = e.seq LIMIT 1)`),
  own: typed<number | null>(sql`(SELECT 1 FROM queue q WHERE q.lane = -e.seq LIMIT 1)`),
  inLane: typed<number | null>(
    sql`(SELECT 1 FROM queue q WHERE q.lane = e.subject AND q.event = e.seq LIMIT 1)`,
  ),
});

/** Backfill locks an event before it gives it a delivery. */
function* purgeEnded(candidates: readonly number[], now: number, before: number): Work<number> {
  const greatest = (yield* greatestOf(events))?.seq ?? 0;
  const seqs = candidates.filter((seq) => seq < greatest);
  const [first, last] = [seqs.at(0), seqs.at(-1)];
  if (first === undefined || last === undefined) return 0;
  const [, used] = yield* together([
    lock(ownEvent, seqs, (seq) => [seq]),
    query(inUse`FROM events e WHERE e.seq >= ${first} AND e.seq <= ${last} ORDER BY e.seq`),
  ]);
  const wanted = new Set(seqs);
  const free = used.filter(
    ({ seq, settled, own, inLane }) =>
      wanted.has(seq) && settled === null && own === null && inLane === null,
  );
  if (free.length === 0) return 0;
  yield* notePurged("events", before);
  return yield* removeEvents(endedEvent, free, before > now - keptMs);
}

/** Not before its last event: a late event could move a status back. */
function* purgeSubjects({ after, now, keep, limit }: Asked): Work<Step> {
  const walked = yield* rows(
    select({ seq: s.seq, registered_at: s.registered_at, updated_at: s.updated_at })`FROM subjects s
      WHERE s.seq > ${after} ORDER BY s.seq LIMIT ${limit}`,
  );
  const step = { read: walked.length, after: walked.at(-1)?.seq ?? after };
  const isOld = ({
    registered_at,
    updated_at,
  }: Pick<SubjectRow, "registered_at" | "updated_at">): boolean =>
    updated_at < now - (registered_at === null ? keep.ignored : keep.messages);
  const greatest = (yield* greatestOf(subjects))?.seq ?? 0;
  const old = walked.filter((row) => isOld(row) && row.seq < greatest).map(({ seq }) => seq);
  // A lock writes to a row, and most have events.
  const candidates = yield* withoutEvents(old);
  if (candidates.length === 0) return step;
  const locked = yield* lockSubjects(candidates);
  const stillOld = candidates.filter((seq) => {
    const row = locked.get(seq);
    return row !== undefined && isOld(row);
  });
  const free = yield* withoutEvents(stillOld);
  yield* together([
    remove(endedPoll, free, (message) => ({ message })),
    remove(endedSubject, free, (seq) => ({ seq })),
  ]);
  return { ...step, purged: { messages: free.length } };
}

function* withoutEvents(seqs: readonly number[]): Work<readonly number[]> {
  const found = yield* ask(find(aboutSubject, seqs, (seq) => [seq]));
  return seqs.filter((_, place) => found[place] === undefined);
}

function* purgeIds({ now, limit }: Asked): Work<Step> {
  const ended = yield* rows(
    select({ id: i.id })`FROM ids i WHERE i.until < ${now} ORDER BY i.until LIMIT ${limit}`,
  );
  yield remove(
    endedId,
    ended.toSorted((a, b) => a.id.compare(b.id)),
  );
  return { read: ended.length };
}

/** A row that is renewed meanwhile stays. */
function* purgeState({ now, limit }: Asked): Work<Step> {
  const ended = yield* rows(
    select({ key: t.key, until: t.until })`FROM state t
      WHERE t.until IS NOT NULL AND t.until < ${now} AND t.until < ${databaseNow} ORDER BY t.until LIMIT ${limit}`,
  );
  yield remove(
    endedState,
    ended.toSorted((a, b) => (a.key < b.key ? -1 : 1)),
  );
  return { read: ended.length };
}
