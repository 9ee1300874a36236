import Database from "better-sqlite3";
import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import {
  type HistoryCell,
  hourMs,
  minuteMs,
  minutesKeptMs,
  type SeriesName,
} from "../../../src/model/history.ts";
import { createLastHourSums } from "../../../src/model/last-hour.ts";
import { createSeriesSums, seriesQuery } from "../../../src/model/series.ts";
import { readLastHour, readSeries } from "../../../src/store/read/history.ts";
import { ddl } from "../../../src/store/schema/ddl.ts";
import { createSqliteRunner, type SqliteRunner } from "../../../src/store/sqlite/runner.ts";
import { createCounting, purgeHours, rollUp } from "../../../src/store/work/counts.ts";

const now = Date.parse("2026-11-20T12:30:15Z");
/** Then all minutes have become hours, and half of the hours are past their retention. */
const later = now + 3 * minutesKeptMs;

interface Counted extends HistoryCell {
  readonly series: SeriesName;
  readonly account: string;
  readonly writer: string;
}

function open(): SqliteRunner {
  const db = new Database(":memory:");
  for (const statement of ddl("sqlite")) db.exec(statement);
  onTestFinished(() => void db.close());
  return createSqliteRunner(db);
}

function write(runner: SqliteRunner, cells: readonly Counted[]): void {
  for (const { series, subject, label, at, n, account, writer } of cells) {
    const counts = createCounting(writer).begin();
    counts.add({ at: Math.floor(at / minuteMs), account, series, of: subject, label }, n);
    runner.transact(counts.write());
  }
}

const cell: fc.Arbitrary<Counted> = fc.record({
  series: fc.constantFrom(
    "events" as const,
    "attempts" as const,
    "delivery" as const,
    "oldest" as const,
  ),
  subject: fc.constantFrom("one", "two", "three"),
  label: fc.constantFrom("1", "2", "3"),
  at: fc.integer({ min: now - 5 * hourMs, max: now }),
  n: fc.integer({ min: 1, max: 9 }),
  account: fc.constantFrom("main", "other"),
  writer: fc.constantFrom("a", "b"),
});

test("a series and the last hour are those of all accounts and writers", () => {
  fc.assert(
    fc.property(
      fc.array(cell),
      fc.constantFrom("minute" as const, "hour" as const),
      (cells, step) => {
        const runner = open();
        write(runner, cells);
        for (const given of [
          { name: "events" },
          { name: "events", source: "two" },
          { name: "delivery" },
          { name: "oldest" },
        ] as const) {
          const query = seriesQuery({ ...given, from: now - 4 * hourMs, to: now, step }, now);
          expect(runner.now(readSeries(query))).toEqual(seriesOf(cells, query));
        }
        const sums = createLastHourSums(now);
        for (const { series, ...one } of cells) sums.add(series as "events", one);
        expect(runner.now(readLastHour(now))).toEqual(sums.result());
      },
    ),
  );
});

test("a series by the hour is the same however many of its minutes have become hours", () => {
  const steps = fc.array(fc.integer({ min: 1, max: 30 }), { maxLength: 10 });
  fc.assert(
    fc.property(fc.array(cell), fc.array(cell, { maxLength: 5 }), steps, (cells, late, limits) => {
      const runner = open();
      write(runner, cells);
      const query = { from: now - 5 * hourMs, to: now, step: "hour" } as const;
      for (const limit of limits) runner.transact(rollUp(later, limit));
      for (const name of ["events", "attempts", "delivery", "oldest"] as const)
        expect(runner.now(readSeries(seriesQuery({ name, ...query }, now)))).toEqual(
          seriesOf(cells, seriesQuery({ name, ...query }, now)),
        );
      // A late count is in a minute again until the next pass.
      write(runner, late);
      const all = [...cells, ...late];
      for (let isOver = false; !isOver; isOver = runner.transact(rollUp(later, 7)) === 0) {
        const events = seriesQuery({ name: "events", ...query }, now);
        expect(runner.now(readSeries(events))).toEqual(seriesOf(all, events));
      }
    }),
  );
});

test("hours past their retention are deleted, and what is counted in them later is not read", () => {
  const runner = open();
  const at = (hours: number) => now - hours * hourMs;
  const one = {
    series: "events",
    subject: "one",
    label: "1",
    n: 1,
    account: "main",
    writer: "a",
  } as const;
  const cells = [5, 4, 3, 1].map((hours) => ({ ...one, at: at(hours) }));
  write(runner, cells);
  runner.transact(rollUp(later, 100));
  const keep = later - at(3) + hourMs / 2;
  expect(runner.transact(purgeHours(later, keep, 1))).toBe(1);
  expect(runner.transact(purgeHours(later, keep, 10))).toBe(1);
  expect(runner.transact(purgeHours(later, keep, 10))).toBe(0);
  const query = seriesQuery({ name: "events", from: at(6), to: now, step: "hour" }, now);
  const left = seriesOf(cells.slice(2), query);
  expect(runner.now(readSeries(query))).toEqual(left);
  write(runner, cells.slice(0, 1));
  expect(runner.now(readSeries(query))).toEqual(left);
});

function seriesOf(cells: readonly Counted[], query: ReturnType<typeof seriesQuery>) {
  const sums = createSeriesSums(query);
  for (const one of cells)
    if (one.series === query.name)
      sums.add({ ...one, at: Math.floor(one.at / minuteMs) * minuteMs });
  return sums.view();
}
