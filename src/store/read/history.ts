import { type HistoryCell, hourMs, minuteMs, type SeriesName } from "../../model/history.ts";
import {
  createLastHourSums,
  type LastHour,
  lastHourFrom,
  lastHourSeries,
} from "../../model/last-hour.ts";
import { createQualitySums, type QualityView, qualitySeries } from "../../model/quality.ts";
import type { QualityQuery } from "../../model/queries.ts";
import { createSeriesSums, type SeriesQuery, type SeriesView } from "../../model/series.ts";
import { counters, events, never, subjects } from "../schema/tables.ts";
import { first, rows, type Work } from "../sql/ops.ts";
import { allOf, as, type Sql, select, sql, typed } from "../sql/sql.ts";
import { atOfHour, atsOfHour, minutesPerHour } from "../work/counts.ts";
import { verdictsOf } from "../work/plans.ts";
import { purgedBefore } from "../work/state-rows.ts";
import {
  beginsWith,
  type Conditions,
  conditionsOf,
  type SeqRange,
  seqRange,
  seqsFrom,
} from "./pages.ts";

const cellsAtOnce = 20_000;
const hoursAtOnce = { first: 1, most: 500 };

const c = as(counters, "c");
const cellRow = select({ at: c.at, of: c.of, label: c.label, n: c.n });
const boundsRow = select({
  oldestMinute: typed<number | null>(sql`(SELECT min(at) FROM counters WHERE at > 0)`),
  newestMinute: typed<number | null>(sql`(SELECT max(at) FROM counters WHERE at > 0)`),
  oldestHour: typed<number | null>(sql`(SELECT -max(at) FROM counters WHERE at < 0)`),
  newestHour: typed<number | null>(sql`(SELECT -min(at) FROM counters WHERE at < 0)`),
});

interface Wanted {
  readonly series: readonly SeriesName[];
  readonly only?: string | undefined;
  /** From (included) and to (not included). */
  readonly from: number;
  readonly to: number;
}

/** `ms`: how long the cell lasts. */
type Take = (series: SeriesName, cell: HistoryCell, ms: number) => void;

/**
 * One statement reads an hour and its minutes, so that minutes that become hours meanwhile are read
 * once.
 */
function* readCells({ series, only, from, to }: Wanted, take: Take): Work<void> {
  const bounds = yield* first(boundsRow``);
  const oldest = Math.min(bounds?.oldestMinute ?? never, bounds?.oldestHour ?? never);
  const newest = Math.max(
    bounds?.newestMinute ?? 0,
    (bounds?.newestHour ?? 0) + minutesPerHour - 1,
  );
  const kept = (yield* purgedBefore("history")) ?? 0;
  const begin = Math.max(hourOf(from / minuteMs), hourOf(oldest), hourOf(kept / minuteMs));
  const end = Math.min(Math.ceil(to / minuteMs), newest + 1);
  const firstMinute = Math.floor(from / minuteMs);
  const inMinutes = bounds?.oldestMinute ?? never;
  for (const name of series) {
    let atOnce = hoursAtOnce.first;
    for (let hour = begin; hour < end; ) {
      const until = Math.min(end, hour + atOnce * minutesPerHour);
      const ats = rangeOf(hour, until).flatMap((start) =>
        start + minutesPerHour <= inMinutes ? [atOfHour(start)] : atsOfHour(start),
      );
      const found = yield* rows(
        cellRow`FROM counters c WHERE c.at IN ${ats} AND c.series = ${name} ${only === undefined ? undefined : sql`AND c."of" = ${only}`}`,
      );
      for (const { at, of, label, n } of found) {
        const minute = Math.abs(at);
        if (at > 0 && (minute < firstMinute || minute >= end || minute * minuteMs < kept)) continue;
        take(name, { subject: of, label, at: minute * minuteMs, n }, at < 0 ? hourMs : minuteMs);
      }
      hour = until;
      atOnce = Math.max(
        1,
        Math.min(
          hoursAtOnce.most,
          2 * atOnce,
          Math.floor((atOnce * cellsAtOnce) / Math.max(1, found.length)),
        ),
      );
    }
  }
}

const hourOf = (minute: number): number => Math.floor(minute / minutesPerHour) * minutesPerHour;
const rangeOf = (from: number, to: number): number[] =>
  Array.from(
    { length: Math.ceil((to - from) / minutesPerHour) },
    (_, hour) => from + hour * minutesPerHour,
  );

export function* readSeries(query: SeriesQuery): Work<SeriesView> {
  const sums = createSeriesSums(query);
  yield* readCells(
    { series: [query.name], only: sums.only, from: query.from, to: query.to },
    (_, cell) => sums.add(cell),
  );
  return sums.view();
}

export function* readLastHour(now: number): Work<LastHour> {
  const sums = createLastHourSums(now);
  const from = lastHourFrom(now);
  yield* readCells({ series: lastHourSeries, from, to: from + hourMs }, (series, cell) =>
    sums.add(series as (typeof lastHourSeries)[number], cell),
  );
  return sums.result();
}

const eventsAtOnce = 5_000;
const fewMessages = 2_000;
const messagesAtOnce = 500;

const e = as(events, "e");
const s = as(subjects, "s");
const moved = select({
  plan: e.plan,
  status: e.status,
  previousStatus: e.previous_status,
  errorCode: e.error_code,
  times: s.times,
  sentAt: s.registered_sent_at,
});

const messageConditions: Conditions<Pick<QualityQuery, "account" | "accounts" | "reference">> = {
  account: (account) => sql`s.account = ${account}`,
  accounts: (accounts) => sql`s.account IN ${accounts}`,
  reference: (reference) => beginsWith(s.reference, reference),
};

export function* readQuality(query: QualityQuery): Work<QualityView> {
  const { from, to, route, reference } = query;
  const sums = createQualitySums(from);
  const isOf = conditionsOf(messageConditions, query);
  if (route === undefined && isOf === undefined) {
    yield* readCells({ series: qualitySeries, from, to }, sums.count);
    return sums.result();
  }
  const few = reference === undefined ? null : yield* fewOfReference(reference);
  const slices = few === null ? slicesOfRange(yield* seqRange(from, to)) : slicesOfMessages(few);
  const delivers = createDelivers(route);
  for (const slice of slices) {
    const found = yield* rows(
      moved`FROM events e JOIN subjects s ON s.seq = e.subject WHERE e.moved = 1 AND s.type = 0
        AND e.received_at >= ${from} AND e.received_at < ${to} AND ${allOf(slice, isOf)}`,
    );
    const isRouted = yield* delivers(found.flatMap(({ plan }) => plan ?? []));
    for (const { plan, times, ...row } of found) {
      if (isRouted(plan)) sums.move({ ...row, status: row.status ?? "", times: JSON.parse(times) });
    }
  }
  return sums.result();
}

function* fewOfReference(reference: string): Work<readonly number[] | null> {
  const begins = beginsWith(sql`x.reference`, reference);
  const found = yield* seqsFrom(
    sql`subjects x WHERE ${begins} AND x.reference IS NOT NULL AND x.type = 0 LIMIT ${fewMessages + 1}`,
  );
  return found.length > fewMessages ? null : found;
}

function slicesOfMessages(messages: readonly number[]): Sql[] {
  return chunksOf({ after: 0, last: messages.length }, messagesAtOnce).map(
    ({ after, last }) => sql`e.subject IN ${messages.slice(after, last)} AND e.subject IS NOT NULL`,
  );
}

const slicesOfRange = (range: SeqRange): Sql[] =>
  chunksOf(range, eventsAtOnce).map(
    ({ after, last }) => sql`e.seq > ${after} AND e.seq <= ${last}`,
  );

const chunksOf = ({ after, last }: SeqRange, size: number): SeqRange[] =>
  Array.from({ length: Math.ceil((last - after) / size) }, (_, index) => ({
    after: after + index * size,
    last: Math.min(last, after + (index + 1) * size),
  }));

function createDelivers(route: string | undefined) {
  const known = new Map<number, boolean>();
  return function* (plans: readonly number[]): Work<(plan: number | null) => boolean> {
    if (route === undefined) return () => true;
    const others = [...new Set(plans)].filter((plan) => !known.has(plan));
    for (const [plan, verdicts] of yield* verdictsOf(others)) {
      const isRouted = verdicts.some(([name, verdict]) => name === route && verdict === "deliver");
      known.set(plan, isRouted);
    }
    return (plan) => plan !== null && known.get(plan) === true;
  };
}
