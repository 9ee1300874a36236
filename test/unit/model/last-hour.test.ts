import { expect, test } from "vitest";
import type { HistoryCell } from "../../../src/model/history.ts";
import { createLastHourSums, type lastHourSeries } from "../../../src/model/last-hour.ts";

const minuteMs = 60_000;
/** A quarter of the current minute has passed. */
const now = Date.parse("2026-11-20T12:00:15Z");
const thisMinute = now - (now % minuteMs);
const before = thisMinute - minuteMs;

type Cells = Partial<Record<(typeof lastHourSeries)[number], readonly HistoryCell[]>>;

function lastHourOf(cells: Cells) {
  const sums = createLastHourSums(now);
  for (const [series, own] of Object.entries(cells))
    for (const cell of own) sums.add(series as keyof Cells, cell);
  return sums.result();
}

const cell = (at: number, subject: string, label: string, n: number): HistoryCell => ({
  at,
  subject,
  label,
  n,
});

test("without history every figure is unknown", () => {
  const hour = lastHourOf({});
  expect(Object.values(hour.figures).map(({ value }) => value)).toEqual([
    null,
    null,
    null,
    null,
    null,
  ]);
  expect(hour.routes.size).toBe(0);
  expect(Object.values(hour.figures).every(({ lastHour }) => lastHour.length === 60)).toBe(true);
});

test("events per second cover the last sixty seconds, whatever their disposition and source", () => {
  const events = [
    cell(before, "main", "routed", 120),
    cell(before, "other", "ignored", 40),
    cell(thisMinute, "main", "routed", 30),
  ];
  const { eventsPerSecond } = lastHourOf({ events }).figures;
  expect(eventsPerSecond.value).toBe((30 + 0.75 * 160) / 60);
  expect(eventsPerSecond.lastHour.slice(-2)).toEqual([160 / 60, 30 / 60]);
});

test("shares of attempts that delivered: of all, of each minute, and of each route", () => {
  const attempts = [
    cell(before, "crm", "delivered", 1),
    cell(before, "crm", "503", 3),
    cell(before, "history", "delivered", 4),
    cell(thisMinute, "history", "timeout", 2),
  ];
  const hour = lastHourOf({ attempts });
  expect(hour.figures.deliveredShare.value).toBe(0.5);
  expect(hour.figures.deliveredShare.lastHour.slice(-3)).toEqual([null, 5 / 8, 0]);
  expect(
    ["crm", "history", "idle"].map((route) => hour.routes.get(route)?.successLastHour),
  ).toEqual([1 / 4, 4 / 6, undefined]);
});

test("what is older than an hour does not count", () => {
  const old = thisMinute - 60 * minuteMs;
  const hour = lastHourOf({
    attempts: [cell(old, "crm", "503", 9)],
    events: [cell(old, "main", "routed", 9)],
  });
  expect([
    hour.figures.eventsPerSecond.value,
    hour.figures.deliveredShare.value,
    hour.routes.size,
  ]).toEqual([null, null, 0]);
});

test("latencies are the latest of the minutes, and of a route those of the hour", () => {
  // Buckets: 0 up to 1 ms, 40 up to 1,024 ms.
  const ack = [cell(before, "", "40", 10)];
  const delivery = [cell(before, "crm", "0", 99), cell(thisMinute, "crm", "40", 1)];
  const hour = lastHourOf({ ack, delivery });
  expect(hour.figures.ackP99Ms.value).toBeGreaterThan(800);
  expect(hour.figures.ackP99Ms.lastHour.at(-1)).toBeNull();
  expect(hour.routes.get("crm")?.p50Ms).toBeLessThan(1);
  expect(hour.figures.oldestDeliverySeconds.lastHour.every((value) => value === null)).toBe(true);
});
