import {
  createQualitySums,
  createSeriesSums,
  type HistoryCell,
  historySeries,
  hourMs,
  minuteMs,
  type QualityQuery,
  type QualityView,
  qualitySeries,
  type SeriesName,
  type SeriesQuery,
  type SeriesView,
  sampleOf,
} from "../../model/history.ts";
import { createLastHourSums, type LastHour, lastHourFrom, lastHourSeries } from "../../model/last-hour.ts";
import { seqRange } from "./audit.ts";
import type { Db } from "./file.ts";
import { createRolled, noSubject } from "./history.ts";
import { createNames, messageSubject, type Names } from "./names.ts";
import { createPlans } from "./plans.ts";
import { createBounds } from "./query.ts";

/** A counter of the wanted series. */
interface Counter {
  readonly id: number;
  readonly series: SeriesName;
  readonly subject: number;
  readonly label: string;
}

/** Rows of the history per slice: a few milliseconds. */
const sliceCells = 20_000;
/** Looking up one counter in a minute takes as long as reading this many of its rows in order. */
const lookUpRows = 4;

/** `ms`: how long the cell lasts. */
type Take = (series: SeriesName, cell: HistoryCell, ms: number) => void;

/** Reads counts of the history. Each read is a generator that yields between two slices of bounded length. */
export function createReadHistory(db: Db, names: Names, atOnce = sliceCells) {
  const countersOf = db.prepare<[string], Counter>("SELECT id, series, subject, label FROM history_names WHERE series = ?");
  const countersOfSubject = db.prepare<[string, number], Counter>(
    "SELECT id, series, subject, label FROM history_names WHERE series = ? AND subject = ?",
  );
  const lastCounter = db.prepare<[], number | null>("SELECT max(id) FROM history_names").pluck();
  const minutesKept = db.prepare<[], { oldest: number | null; newest: number | null }>(
    "SELECT (SELECT min(at) FROM history_minutes) AS oldest, (SELECT max(at) FROM history_minutes) AS newest",
  );
  const ofMinute = db.prepare<[number], { counter: number; n: number }>("SELECT counter, n FROM history_minutes WHERE at = ?");
  const inMinute = db.prepare<[number, number], number>("SELECT n FROM history_minutes WHERE at = ? AND counter = ?").pluck();
  const inHours = db.prepare<[number, number, number], { at: number; n: number }>(
    "SELECT at, n FROM history_hours WHERE counter = ? AND at >= +? AND at < +?",
  );
  const rolled = createRolled(db);

  function counters(series: SeriesName, only: string | undefined): Counter[] {
    const kind = historySeries[series].of;
    if (only === undefined || kind === null) return countersOf.all(series);
    const subject = names.find(kind, only);
    return subject === null ? [] : countersOfSubject.all(series, subject);
  }

  /** Minutes that are rolled up meanwhile may be missed or counted twice: see `steady`. */
  function* cells(wanted: readonly Counter[], from: number, to: number, take: Take): Generator<void, void> {
    const give = ({ series, subject, label }: Counter, at: number, n: number, ms = minuteMs): void =>
      take(series, { subject: subject === noSubject ? "" : names.nameOf(subject), label, at: at * minuteMs, n }, ms);
    const [first, end] = [Math.floor(from / minuteMs), Math.ceil(to / minuteMs)];
    let read = 0;
    function* slice(rows: number): Generator<void, void> {
      read += rows;
      if (read < atOnce) return;
      read = 0;
      yield;
    }
    const firstHour = Math.floor(from / hourMs) * (hourMs / minuteMs);
    for (const counter of firstHour < rolled.before() ? wanted : []) {
      const rows = inHours.all(counter.id, firstHour, end);
      for (const { at, n } of rows) give(counter, at, n, hourMs);
      yield* slice(lookUpRows + rows.length);
    }
    const { oldest, newest } = minutesKept.get() ?? { oldest: null, newest: null };
    if (oldest === null || newest === null) return;
    const isLookedUp = wanted.length * lookUpRows < (lastCounter.get() ?? 0);
    const byId = new Map(wanted.map((counter) => [counter.id, counter]));
    for (let minute = Math.max(first, oldest); minute < Math.min(end, newest + 1); minute += 1) {
      if (isLookedUp) {
        for (const counter of wanted) {
          const n = inMinute.get(minute, counter.id);
          if (n !== undefined) give(counter, minute, n);
        }
        yield* slice(wanted.length * lookUpRows);
        continue;
      }
      const rows = ofMinute.all(minute);
      for (const { counter: id, n } of rows) {
        const counter = byId.get(id);
        if (counter !== undefined) give(counter, minute, n);
      }
      yield* slice(rows.length);
    }
  }

  /** Reads again when minutes of the range became hours meanwhile. */
  function* steady<T>(from: number, read: () => Generator<void, T>): Generator<void, T> {
    for (let tries = 1; ; tries += 1) {
      const before = rolled.before();
      const result = yield* read();
      const after = rolled.before();
      if (after === before || after * minuteMs <= from || tries === mostTries) return result;
    }
  }

  return {
    quality: (from: number, to: number): Generator<void, QualityView> =>
      steady(from, function* () {
        const sums = createQualitySums(from);
        const wanted = qualitySeries.flatMap((name) => counters(name, undefined));
        yield* cells(wanted, from, to, sums.count);
        return sums.result();
      }),
    series: (query: SeriesQuery): Generator<void, SeriesView> =>
      steady(query.from, function* () {
        const sums = createSeriesSums(query);
        yield* cells(counters(query.name, sums.only), query.from, query.to, (_, cell) => sums.add(cell));
        return sums.view();
      }),
    /** One pass, whatever the number of routes. */
    *lastHour(now: number): Generator<void, LastHour> {
      const sums = createLastHourSums(now);
      const wanted = lastHourSeries.flatMap((name) => counters(name, undefined));
      const from = lastHourFrom(now);
      yield* cells(wanted, from, from + hourMs, (series, cell) => sums.add(series as (typeof lastHourSeries)[number], cell));
      return sums.result();
    },
  };
}

/** Minutes become hours once a minute, so more tries would be of no use. */
const mostTries = 3;

interface MovedRow {
  readonly plan: number | null;
  readonly status: string;
  readonly previous_status: string | null;
  readonly error_code: string | null;
  readonly times: string;
  readonly told_sent_at: number | null;
}

/** Events per slice: some ten milliseconds. */
const sliceRows = 5_000;
/** The events of so many messages are read by their index; those of more in the order of the events. */
const fewMessages = 2_000;

/** Without route and reference from the history, else from the events of the messages. It yields between two short transactions. */
export function* sumQuality(db: Db, query: QualityQuery): Generator<void, QualityView> {
  const { from, to, route, reference } = query;
  const names = createNames(db);
  if (route === undefined && reference === undefined) return yield* createReadHistory(db, names).quality(from, to);
  const sums = createQualitySums(from);
  const isRouted = route === undefined ? () => true : createDelivers(db, route);
  const few = reference === undefined ? null : fewOfReference(db, reference);
  const { share, stretches } = few === null ? sampleOf(db.transaction(() => rangeOf(db, query))(), query.most) : allOfThem;
  for (const rows of few === null ? movedInRange(db, query, stretches) : movedOfMessages(db, query, few)) {
    for (const row of rows) {
      if (!isRouted(row.plan)) continue;
      sums.move({
        status: row.status,
        previousStatus: row.previous_status,
        errorCode: row.error_code,
        times: JSON.parse(row.times),
        sentAt: row.told_sent_at,
      });
    }
    yield;
  }
  return sums.result(share);
}

type Sample = ReturnType<typeof sampleOf>;
const allOfThem: Sample = { share: 1, stretches: [] };

/** The seqs of the events received in the range, and some around it. */
function rangeOf(db: Db, { from, to }: QualityQuery): { readonly after: number; readonly last: number } {
  const { after, last } = seqRange(db, { from, to });
  // None of the seqs before the oldest event exists.
  const oldest = createBounds(db, "events")()?.oldest ?? last + 1;
  return { after: Math.min(last, Math.max(after, oldest - 1)), last };
}

/** Whether a plan delivers to a route. Many events share a plan. */
function createDelivers(db: Db, route: string): (plan: number | null) => boolean {
  const plans = createPlans(db);
  const known = new Map<number, boolean>();
  return (plan) => {
    if (plan === null) return false;
    let delivers = known.get(plan);
    if (delivers === undefined) {
      delivers = plans.verdictsOf(plan).some(([name, verdict]) => name === route && verdict === "deliver");
      known.set(plan, delivers);
    }
    return delivers;
  };
}

const movedColumns = "e.plan, e.status, e.previous_status, e.error_code, m.times, m.told_sent_at";
const isMoved = "e.moved = 1 AND e.subject % 2 = 0 AND e.received_at >= @from AND e.received_at < @to";

const isOfReference = "substr(m.reference, 1, length(@reference)) = @reference";

/** Events that moved a message, in the order of acceptance. */
function* movedInRange(db: Db, { from, to, reference = "" }: QualityQuery, stretches: Sample["stretches"]): Generator<readonly MovedRow[]> {
  const rows = db.prepare<[{ from: number; to: number; reference: string; after: number; until: number }], MovedRow>(
    `SELECT ${movedColumns} FROM events e JOIN messages m ON m.seq = e.subject / 2
     WHERE e.seq > @after AND e.seq <= @until AND ${isMoved} AND (@reference = '' OR ${isOfReference})`,
  );
  let slice: MovedRow[] = [];
  let read = 0;
  for (const { after, last } of stretches) {
    for (let at = after; at < last; at += sliceRows) {
      const until = Math.min(last, at + sliceRows);
      slice.push(...rows.all({ from, to, reference, after: at, until }));
      read += until - at;
      if (read < sliceRows) continue;
      yield slice;
      slice = [];
      read = 0;
    }
  }
  yield slice;
}

/** The seqs of the messages whose reference begins with `reference`; null: they are more than a few. */
function fewOfReference(db: Db, reference: string): readonly number[] | null {
  const found = db
    .prepare<[{ reference: string; end: string; limit: number }], number>(
      `SELECT m.seq FROM messages m WHERE m.reference IS NOT NULL AND m.reference >= @reference AND m.reference < @end
         AND ${isOfReference} LIMIT @limit`,
    )
    .pluck()
    .all({ reference, end: `${reference}\u{10FFFF}`, limit: fewMessages + 1 });
  return found.length > fewMessages ? null : found;
}

/** The same of these messages. */
function* movedOfMessages(db: Db, { from, to }: QualityQuery, messages: readonly number[]): Generator<readonly MovedRow[]> {
  const events = db.prepare<[{ from: number; to: number; subject: number; seq: number }], MovedRow>(
    `SELECT ${movedColumns} FROM events e JOIN messages m ON m.seq = @seq WHERE e.subject = @subject AND e.subject IS NOT NULL AND ${isMoved}`,
  );
  const atOnce = sliceRows / 10;
  for (let at = 0; at < messages.length; at += atOnce) {
    yield messages.slice(at, at + atOnce).flatMap((seq) => events.all({ from, to, seq, subject: messageSubject(seq) }));
  }
}
