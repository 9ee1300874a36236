import {
  bucketOf,
  createQualitySums,
  type HistoryCell,
  historySeries,
  hourMs,
  minuteMs,
  noCode,
  type QualityQuery,
  type QualityView,
  qualitySeries,
  type SeriesName,
  type SeriesQuery,
  type SeriesView,
  sampleOf,
  skippedBy,
  sumSeries,
  timeOfStatus,
} from "../../model/history.ts";
import { seqRange } from "./audit.ts";
import type { Db } from "./file.ts";
import { noSubject } from "./history.ts";
import { createNames, messageSubject, type Names } from "./names.ts";
import { createPlans } from "./plans.ts";
import { createBounds } from "./query.ts";

interface CellRow {
  readonly subject: number;
  readonly label: string;
  /** Unix minutes. */
  readonly at: number;
  readonly n: number;
}

/** Reads the counts of series. A join in this order reads each minute once: `CROSS JOIN` keeps SQLite from turning it around. */
export function createReadHistory(db: Db, names: Names) {
  const minutes = (at: string, n: string, group: string) =>
    db.prepare<[string, number, number], CellRow>(
      `SELECT c.subject, c.label, ${at} AS at, ${n} AS n FROM history_minutes m CROSS JOIN history_names c
       WHERE c.id = m.counter AND c.series = ? AND m.at >= ? AND m.at < ? ${group}`,
    );
  const eachMinute = minutes("m.at", "m.n", "");
  const minutesByHour = minutes("m.at - m.at % 60", "sum(m.n)", "GROUP BY m.counter, m.at / 60");
  const hours = db.prepare<[string, number, number], CellRow>(
    `SELECT c.subject, c.label, h.at, h.n FROM history_names c CROSS JOIN history_hours h
     WHERE c.series = ? AND h.counter = c.id AND h.at >= ? AND h.at < ?`,
  );

  function* cells(name: SeriesName, from: number, to: number, isByHour: boolean): Generator<HistoryCell> {
    const first = Math.floor(from / minuteMs);
    const end = Math.ceil(to / minuteMs);
    const firstHour = Math.floor(from / hourMs) * (hourMs / minuteMs);
    const recent = isByHour && historySeries[name].kind !== "gauge" ? minutesByHour : eachMinute;
    for (const rows of [hours.all(name, firstHour, end), recent.all(name, first, end)]) {
      for (const { subject, label, at, n } of rows) {
        yield { subject: subject === noSubject ? "" : names.nameOf(subject), label, at: at * minuteMs, n };
      }
    }
  }

  return {
    cells,
    series: (query: SeriesQuery): SeriesView => sumSeries(query, cells(query.name, query.from, query.to, query.step > 60)),
  };
}

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
  const sums = createQualitySums();
  if (route === undefined && reference === undefined) {
    const { cells } = createReadHistory(db, names);
    for (const series of qualitySeries) {
      for (const { label, n } of cells(series, from, to, false)) sums.count(series, label, n);
      yield;
    }
    return sums.result();
  }
  const isRouted = route === undefined ? () => true : createDelivers(db, route);
  const few = reference === undefined ? null : fewOfReference(db, reference);
  const { share, stretches } = few === null ? sampleOf(db.transaction(() => rangeOf(db, query))(), query.most) : allOfThem;
  for (const rows of few === null ? movedInRange(db, query, stretches) : movedOfMessages(db, query, few)) {
    for (const row of rows) {
      if (!isRouted(row.plan)) continue;
      sums.count("transitions", row.status, 1);
      for (const status of skippedBy(row.previous_status, row.status)) sums.count("skipped", status, 1);
      if (row.status === "failed") sums.count("failures", row.error_code ?? noCode, 1);
      const timed = timeOfStatus(row.status, JSON.parse(row.times), row.told_sent_at);
      if (timed !== null) sums.count(timed.series, String(bucketOf(timed.seconds)), 1);
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
