import {
  createQualitySums,
  createSeriesSums,
  type HistoryCell,
  historySeries,
  hourMs,
  minuteMs,
  type QualityView,
  qualitySeries,
  type SeriesName,
  type SeriesQuery,
  type SeriesView,
} from "../../model/history.ts";
import { createLastHourSums, type LastHour, lastHourFrom, lastHourSeries } from "../../model/last-hour.ts";
import { counters } from "../schema/tables.ts";
import { first, rows, type Work } from "../sql/ops.ts";
import { as, select, sql, typed } from "../sql/sql.ts";
import { atOfHour, atsOfHour, minutesPerHour } from "../work/hours.ts";
import { purgedBefore } from "../work/purged.ts";

/** Counts that one statement reads: a few milliseconds. */
const cellsAtOnce = 20_000;
/** Hours that one statement looks for. */
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
  /** The only source or route whose counts are read; undefined: all. */
  readonly only?: string | undefined;
  /** Unix ms, from (included) and to (not included). */
  readonly from: number;
  readonly to: number;
}

/** `ms`: how long the cell lasts. */
type Take = (series: SeriesName, cell: HistoryCell, ms: number) => void;

/**
 * Reads counts of the history, those of each account and process in a cell of its own. One statement reads an hour and its
 * minutes, so that minutes that become hours meanwhile are read once.
 */
export function* readCells({ series, only, from, to }: Wanted, take: Take): Work<void> {
  const bounds = yield* first(boundsRow``);
  const oldest = Math.min(bounds?.oldestMinute ?? never, bounds?.oldestHour ?? never);
  const newest = Math.max(bounds?.newestMinute ?? 0, (bounds?.newestHour ?? 0) + minutesPerHour - 1);
  const kept = (yield* purgedBefore("history")) ?? 0;
  const begin = Math.max(hourOf(from / minuteMs), hourOf(oldest), hourOf(kept / minuteMs));
  const end = Math.min(Math.ceil(to / minuteMs), newest + 1);
  const firstMinute = Math.floor(from / minuteMs);
  const inMinutes = bounds?.oldestMinute ?? never;
  for (const name of series) {
    let atOnce = hoursAtOnce.first;
    for (let hour = begin; hour < end; ) {
      const until = Math.min(end, hour + atOnce * minutesPerHour);
      const ats = rangeOf(hour, until).flatMap((start) => (start + minutesPerHour <= inMinutes ? [atOfHour(start)] : atsOfHour(start)));
      const found = yield* rows(
        cellRow`FROM counters c WHERE c.at IN ${ats} AND c.series = ${name} ${only === undefined ? undefined : sql`AND c."of" = ${only}`}`,
      );
      for (const { at, of, label, n } of found) {
        const minute = Math.abs(at);
        if (at > 0 && (minute < firstMinute || minute >= end || minute * minuteMs < kept)) continue;
        take(name, { subject: of, label, at: minute * minuteMs, n }, at < 0 ? hourMs : minuteMs);
      }
      hour = until;
      atOnce = Math.max(1, Math.min(hoursAtOnce.most, 2 * atOnce, Math.floor((atOnce * cellsAtOnce) / Math.max(1, found.length))));
    }
  }
}

const never = Number.MAX_SAFE_INTEGER;
/** The first minute of the hour of a minute. */
const hourOf = (minute: number): number => Math.floor(minute / minutesPerHour) * minutesPerHour;
const rangeOf = (from: number, to: number): number[] =>
  Array.from({ length: Math.ceil((to - from) / minutesPerHour) }, (_, hour) => from + hour * minutesPerHour);

export function* readSeries(query: SeriesQuery): Work<SeriesView> {
  const sums = createSeriesSums(query);
  const only = historySeries[query.name].of === null ? undefined : sums.only;
  yield* readCells({ series: [query.name], only, from: query.from, to: query.to }, (_, cell) => sums.add(cell));
  return sums.view();
}

/** One pass, whatever the number of routes. */
export function* readLastHour(now: number): Work<LastHour> {
  const sums = createLastHourSums(now);
  const from = lastHourFrom(now);
  yield* readCells({ series: lastHourSeries, from, to: from + hourMs }, (series, cell) =>
    sums.add(series as (typeof lastHourSeries)[number], cell),
  );
  return sums.result();
}

/** The quality of all messages, from the counts. */
export function* readWholeQuality(from: number, to: number): Work<QualityView> {
  const sums = createQualitySums(from);
  yield* readCells({ series: qualitySeries, from, to }, sums.count);
  return sums.result();
}
