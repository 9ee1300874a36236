import { expect, test } from "vitest";
import { noHistory, readLastHour } from "../../../src/app/last-hour.ts";
import { type HistoryCell, type SeriesQuery, sumSeries } from "../../../src/model/history.ts";

const minuteMs = 60_000;
/** A quarter of the current minute has passed. */
const now = Date.parse("2026-11-20T12:00:15Z");
const thisMinute = now - (now % minuteMs);
const before = thisMinute - minuteMs;

/** A history with these counts. */
function historyOf(cells: Readonly<Record<string, readonly HistoryCell[]>>) {
  return {
    series: (query: SeriesQuery) =>
      sumSeries(
        query,
        (cells[query.name] ?? []).filter(({ at }) => at >= query.from && at < query.to),
      ),
  };
}

const cell = (at: number, subject: string, label: string, n: number): HistoryCell => ({ at, subject, label, n });

test("without history every figure is unknown", async () => {
  const hour = await readLastHour(historyOf({}), ["crm"], now);
  expect([hour.eventsPerSecond, hour.ackP99Ms, hour.deliveredShare]).toEqual([null, null, null]);
  expect(hour.of("crm")).toEqual(noHistory.of("crm"));
  expect(Object.values(hour.figures).every((values) => values.length === 60)).toBe(true);
});

test("events per second cover the last sixty seconds, whatever their disposition and source", async () => {
  const events = [cell(before, "main", "routed", 120), cell(before, "other", "ignored", 40), cell(thisMinute, "main", "routed", 30)];
  const { eventsPerSecond, figures } = await readLastHour(historyOf({ events }), [], now);
  expect(eventsPerSecond).toBe((30 + 0.75 * 160) / 60);
  expect(figures.eventsPerSecond.slice(-2)).toEqual([160 / 60, 30 / 60]);
});

test("shares of attempts that delivered: of all, of each minute, and of each route", async () => {
  const attempts = [
    cell(before, "crm", "delivered", 1),
    cell(before, "crm", "503", 3),
    cell(before, "history", "delivered", 4),
    cell(thisMinute, "history", "timeout", 2),
  ];
  const hour = await readLastHour(historyOf({ attempts }), ["crm", "history", "idle"], now);
  expect(hour.deliveredShare).toBe(0.5);
  expect(hour.figures.deliveredShare.slice(-3)).toEqual([null, 5 / 8, 0]);
  expect(["crm", "history", "idle", "unknown"].map((route) => hour.of(route).successLastHour)).toEqual([1 / 4, 4 / 6, null, null]);
});

test("what is older than an hour does not count", async () => {
  const old = thisMinute - 60 * minuteMs;
  const hour = await readLastHour(
    historyOf({ attempts: [cell(old, "crm", "503", 9)], events: [cell(old, "main", "routed", 9)] }),
    ["crm"],
    now,
  );
  expect([hour.eventsPerSecond, hour.deliveredShare, hour.of("crm").successLastHour]).toEqual([null, null, null]);
});

test("latencies are the latest of the minutes, and of a route those of the hour", async () => {
  // Buckets: 0 up to 1 ms, 40 up to 1,024 ms.
  const ack = [cell(before, "", "40", 10)];
  const delivery = [cell(before, "crm", "0", 99), cell(thisMinute, "crm", "40", 1)];
  const hour = await readLastHour(historyOf({ ack, delivery }), ["crm"], now);
  expect(hour.ackP99Ms).toBeGreaterThan(800);
  expect(hour.figures.ackP99Ms.at(-1)).toBeNull();
  expect(hour.of("crm").p50Ms).toBeLessThan(1);
  expect(hour.figures.oldestDeliverySeconds.every((value) => value === null)).toBe(true);
});
