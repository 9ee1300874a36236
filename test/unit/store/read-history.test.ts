import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { createSeriesSums, type HistoryCell, hourMs, minuteMs, type SeriesName, seriesQuery } from "../../../src/model/history.ts";
import { createLastHourSums } from "../../../src/model/last-hour.ts";
import { type Db, openForWriting } from "../../../src/store/sqlite/file.ts";
import { createRolled } from "../../../src/store/sqlite/history.ts";
import { createInspecting } from "../../../src/store/sqlite/inspecting.ts";
import { createNames } from "../../../src/store/sqlite/names.ts";
import { createBrowsing, createReader } from "../../../src/store/sqlite/read.ts";
import { createReadHistory } from "../../../src/store/sqlite/read-history.ts";

const now = Date.parse("2026-11-20T12:30:15Z");
/** Cells of a slice. */
const atOnce = 1_000;
const minuteOf = (at: number): number => Math.floor(at / minuteMs);

interface Counted extends HistoryCell {
  readonly series: SeriesName;
}

function open(): { readonly db: Db; readonly path: string } {
  const folder = mkdtempSync(join(tmpdir(), "read-history-"));
  const path = join(folder, "relay.db");
  const db = openForWriting(path, "test", "test");
  onTestFinished(() => {
    db.close();
    rmSync(folder, { recursive: true });
  });
  return { db, path };
}

/** Writes cells as the history does: in minutes, or in hours those that are rolled up. */
function write(db: Db, cells: readonly Counted[], rolledBefore = 0): void {
  const names = createNames(db);
  const counter = db
    .prepare<[string, number, string], number>("SELECT id FROM history_names WHERE series = ? AND subject = ? AND label = ?")
    .pluck();
  const add = db.prepare<[string, number, string]>("INSERT INTO history_names (series, subject, label, last_at) VALUES (?, ?, ?, 0)");
  const put = (table: string, key: string) =>
    db.prepare<[number, number, number]>(
      `INSERT INTO ${table} (at, counter, n, writes) VALUES (?, ?, ?, 1) ON CONFLICT (${key}) DO UPDATE SET n = n + excluded.n`,
    );
  const [minute, hour] = [put("history_minutes", "at, counter"), put("history_hours", "counter, at")];
  db.transaction(() => {
    for (const { series, subject, label, at, n } of cells) {
      const number = subject === "" ? 0 : names.idOf(series === "events" ? "source" : "route", subject);
      const id = counter.get(series, number, label) ?? Number(add.run(series, number, label).lastInsertRowid);
      if (minuteOf(at) >= rolledBefore) minute.run(minuteOf(at), id, n);
      else hour.run(minuteOf(at) - (minuteOf(at) % 60), id, n);
    }
    createRolled(db).note(rolledBefore);
  })();
}

function readAll<T>(steps: Generator<void, T>): { readonly result: T; readonly slices: number } {
  for (let slices = 1; ; slices += 1) {
    const step = steps.next();
    if (step.done === true) return { result: step.value, slices };
  }
}

const cell = fc.record({
  series: fc.constantFrom("events" as const, "attempts" as const, "delivery" as const),
  subject: fc.constantFrom("one", "two", "three"),
  label: fc.constantFrom("1", "2", "3"),
  at: fc.integer({ min: now - 5 * hourMs, max: now }),
  n: fc.integer({ min: 1, max: 9 }),
});

test("a series and the last hour are those of all cells, whether counters are looked up or read", () => {
  fc.assert(
    fc.property(fc.array(cell), fc.constantFrom("minute" as const, "hour" as const), fc.boolean(), (cells, step, isOneOf) => {
      const { db } = open();
      const rolledBefore = minuteOf(now - 3 * hourMs) - (minuteOf(now - 3 * hourMs) % 60);
      // Counters of another series decide whether those of this one are looked up.
      const others = Array.from({ length: isOneOf ? 90 : 0 }, (_, n) => ({
        series: "failures" as const,
        subject: "",
        label: `${n}`,
        at: now,
        n: 1,
      }));
      write(db, [...cells, ...others], rolledBefore);
      const read = createReadHistory(db, createNames(db), atOnce);
      // From the rolled hours on, a step is an hour.
      const from = step === "minute" ? rolledBefore * minuteMs : now - 5 * hourMs;
      for (const name of ["events", "attempts", "delivery"] as const) {
        const only = name === "events" ? { source: "two" } : { route: "two" };
        for (const filter of [{}, only, { source: "unknown", route: "unknown" }]) {
          const query = seriesQuery({ name, from, to: now, step, ...filter }, now);
          const sums = createSeriesSums(query);
          for (const each of cells) if (each.series === name) sums.add(each);
          expect(readAll(read.series(query)).result).toEqual(sums.view());
        }
      }
      const hour = createLastHourSums(now);
      for (const { series, ...each } of cells) hour.add(series, each);
      expect(readAll(read.lastHour(now)).result).toEqual(hour.result());
      db.close();
    }),
    { numRuns: 15 },
  );
});

test("minutes that become hours while a series is read count once", () => {
  const { db } = open();
  const cells = Array.from({ length: 10 }, (_, n) =>
    Array.from({ length: 300 }, (_, minute) => ({
      series: "attempts" as const,
      subject: `route ${n}`,
      label: "503",
      at: now - minute * minuteMs,
      n: 1,
    })),
  ).flat();
  write(db, cells);
  const read = createReadHistory(db, createNames(db), atOnce);
  const query = seriesQuery({ name: "attempts", from: now - 10 * hourMs, to: now, step: "hour" }, now);
  const steps = read.series(query);
  expect(steps.next().done).toBe(false);
  // All of the oldest hour, which the first slice has read.
  const hour = minuteOf(now - 299 * minuteMs) - (minuteOf(now - 299 * minuteMs) % 60);
  db.exec(`INSERT INTO history_hours (counter, at, n, writes) SELECT counter, ${hour}, sum(n), 1 FROM history_minutes WHERE at < ${hour + 60} GROUP BY counter;
    DELETE FROM history_minutes WHERE at < ${hour + 60}`);
  createRolled(db).note(hour + 60);
  expect(readAll(steps).result.series.map(({ label, total }) => [label, total])).toEqual([["503", 3_000]]);
});

/** Busy routes: each makes attempts and delivers in every minute. */
function busy(routes: number, minutes: number): Counted[] {
  return Array.from({ length: routes }, (_, route) =>
    Array.from({ length: minutes }, (_, minute) =>
      [
        ["attempts", "delivered"],
        ["attempts", "503"],
        ["delivery", "12"],
        ["delivery", "20"],
      ].map(([series, label]) => ({
        series: series as SeriesName,
        subject: `route ${route}`,
        label: label as string,
        at: now - minute * minuteMs,
        n: 1,
      })),
    ),
  ).flat(2);
}

test("the last hour of many routes is one pass over its cells, in slices, and older minutes cost nothing", () => {
  const slicesOf = (routes: number, minutes: number): number => {
    const { db } = open();
    write(db, busy(routes, minutes));
    const { result, slices } = readAll(createReadHistory(db, createNames(db), atOnce).lastHour(now));
    expect(result.routes.size).toBe(routes);
    return slices;
  };
  // 4 cells a minute and route.
  expect(slicesOf(10, 60)).toBe(3);
  expect(slicesOf(20, 60)).toBe(5);
  expect(slicesOf(10, 180)).toBe(3);
});

test("a series of one route reads only the counters of that route", () => {
  const { db } = open();
  write(db, busy(10, 120));
  const read = createReadHistory(db, createNames(db), atOnce);
  const of = (route?: string) =>
    readAll(read.series(seriesQuery({ name: "attempts", by: "route", from: now - 2 * hourMs, to: now, route }, now)));
  expect(of().slices).toBe(5);
  expect(of("route 7")).toMatchObject({ slices: 1, result: { series: [{ label: "route 7", total: 240 }] } });
});

test("the last hour is read here when it has few cells, and in the thread when it has many", async () => {
  const { db, path } = open();
  write(db, busy(10, 120));
  const inspecting = createInspecting(path);
  onTestFinished(() => inspecting.close());
  let aside = 0;
  const lastHour = (at: number) => {
    aside += 1;
    return inspecting.pages.lastHour(at);
  };
  const browseOf = (few: number) => createBrowsing(createReader(db), { ...inspecting.pages, lastHour }, few).history;
  const here = await browseOf(2401).lastHour(now);
  expect(aside).toBe(0);
  expect(await browseOf(2400).lastHour(now)).toEqual(here);
  expect(aside).toBe(1);
});
