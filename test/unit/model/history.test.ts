import fc from "fast-check";
import { expect, test } from "vitest";
import {
  bucketOf,
  type HistoryCell,
  quantile,
  type SeriesName,
  seriesNames,
  skippedBy,
} from "../../../src/model/history.ts";
import { createQualitySums } from "../../../src/model/quality.ts";
import {
  createSeriesSums,
  type SeriesQuery,
  seriesQuery,
  seriesSchema,
} from "../../../src/model/series.ts";
import { toAnswer } from "../../../src/model/view.ts";

const now = 1_800_000_000_000;
const day = 86_400_000;

function sumSeries(query: SeriesQuery, cells: readonly HistoryCell[]) {
  const sums = createSeriesSums(query);
  for (const each of cells) sums.add(each);
  return sums.view();
}

test("quality leaves a share out where the beginning of the range divides a cell, and never exceeds what was sent", () => {
  const minute = 60_000;
  const hour = 60 * minute;
  const from = now - (now % hour) + hour / 2;
  const quality = (ms: number, after: number, seconds: number) => {
    const sums = createQualitySums(from);
    const at = Math.floor(from / ms) * ms + after;
    const cell = (label: string, n: number): HistoryCell => ({ subject: "", at, label, n });
    sums.count("transitions", cell("sent", 90), ms);
    sums.count("transitions", cell("delivered", 100), ms);
    sums.count("toDelivered", cell(String(bucketOf(seconds)), 100), ms);
    return sums.result().delivered;
  };
  // Of what arrived within a minute and took about half a minute, half was sent before.
  expect(quality(minute, 0, 30)).toBeGreaterThan(40);
  expect(quality(minute, 0, 30)).toBeLessThan(60);
  expect(quality(minute, 0, 3600)).toBe(0);
  expect([quality(minute, minute, 30), quality(hour, 0, 30), quality(hour, 0, 1)]).toEqual([
    90, 90, 90,
  ]);
});

test("buckets grow with their values", () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true }), fc.double({ noNaN: true }), (a, b) => {
      const [low, high] = a < b ? [a, b] : [b, a];
      return bucketOf(low) <= bucketOf(high) && bucketOf(low) >= 0;
    }),
  );
});

test("a quantile above one is within a fifth of the exact one, and between 0 and 1 otherwise", () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          fc.double({ min: 0, max: 4, noNaN: true }),
          fc.double({ min: 0, max: 1e6, noNaN: true }),
          fc.nat(9),
        ),
        {
          minLength: 1,
        },
      ),
      fc.constantFrom(0.5, 0.9, 0.99),
      (values, share) => {
        const buckets = new Map<number, number>();
        for (const value of values)
          buckets.set(bucketOf(value), (buckets.get(bucketOf(value)) ?? 0) + 1);
        const exact =
          values.toSorted((a, b) => a - b)[Math.max(0, Math.ceil(share * values.length) - 1)] ?? 0;
        const found = quantile(buckets, share) ?? Number.NaN;
        const [lowest, highest] = exact > 1 ? [exact / 1.2, exact * 1.2] : [0, 1];
        // Rounded to hundredths.
        expect(found).toBeGreaterThanOrEqual(lowest - 0.005);
        expect(found).toBeLessThanOrEqual(highest + 0.005);
      },
    ),
    { examples: [[[1], 0.5]] },
  );
  expect(quantile(new Map(), 0.5)).toBeNull();
});

test("a first bucket does not tell 1 from 0: half of it is answered for both", () => {
  for (const value of [0, 1]) expect(quantile(new Map([[bucketOf(value), 1]]), 0.5)).toBe(0.5);
});

const cell = fc.record({
  subject: fc.constantFrom("main", "second"),
  label: fc.constantFrom("1", "2", "3"),
  at: fc.integer({ min: now - 2 * day, max: now }),
  n: fc.nat(9),
});

test("values of counters add up to the totals, whatever the step and the key", () => {
  const names = seriesNames.filter((name) => ["events", "transitions", "attempts"].includes(name));
  fc.assert(
    fc.property(
      fc.array(cell),
      fc.constantFrom(...names),
      fc.constantFrom("minute", "hour", "day"),
      (cells, name: SeriesName, step) => {
        const query = seriesQuery({ name, from: now - day, to: now, step }, now);
        const whole = cells
          .filter(({ at }) => at >= query.from && at < query.to)
          .reduce((sum, { n }) => sum + n, 0);
        const all = sumSeries(query, cells as HistoryCell[]).series;
        expect(all.reduce((sum, { total }) => sum + (total ?? 0), 0)).toBe(whole);
        for (const { values, total } of all) {
          expect(values).toHaveLength((query.to - query.from) / query.step / 1000);
          expect(values.reduce<number>((sum, n) => sum + (n ?? 0), 0)).toBe(total);
        }
      },
    ),
  );
});

test("many labels: the rest is other", () => {
  const cells = Array.from({ length: 80 }, (_, n) => ({
    subject: "",
    label: `code ${n}`,
    at: now,
    n: 80 - n,
  }));
  const query = seriesQuery({ name: "failures", from: now - 60_000, to: now + 60_000 }, now);
  const { series } = sumSeries(query, cells);
  expect(series).toHaveLength(50);
  expect(series.at(-1)).toMatchObject({ label: "other", total: (31 * 32) / 2 });
});

test("the step follows the range, and minutes older than two days are read by hour", () => {
  const stepOf = (days: number, ago = 0, step?: "minute") =>
    seriesQuery({ name: "events", from: now - (days + ago) * day, to: now - ago * day, step }, now)
      .step;
  expect([stepOf(1), stepOf(1.5), stepOf(31), stepOf(32)]).toEqual([60, 3600, 3600, 86_400]);
  expect([stepOf(1, 3), stepOf(0.1, 3, "minute"), stepOf(1.9, 0, "minute")]).toEqual([
    3600, 3600, 60,
  ]);
});

test("steps in the future have no values; the answer fits its schema", () => {
  const query = seriesQuery({ name: "events", from: now, to: now + 3 * 60_000 }, now);
  const view = sumSeries(query, [{ subject: "main", label: "routed", at: query.from, n: 2 }]);
  expect(view.series).toEqual([
    {
      label: "routed",
      values: [2, null, null, null].slice(0, view.series[0]?.values.length),
      total: 2,
    },
  ]);
  expect(seriesSchema.parse(toAnswer(seriesSchema, view))).toMatchObject({
    step: 60,
    unit: "count",
    by: "disposition",
  });
});

test("a transition passes over the statuses between, and none that failed", () => {
  expect(skippedBy(null, "read")).toEqual(["sent", "delivered"]);
  expect(skippedBy("sent", "read")).toEqual(["delivered"]);
  expect(skippedBy("failed", "delivered")).toEqual([]);
  expect(skippedBy(null, "failed")).toEqual(["sent"]);
  expect(skippedBy("pending", "received")).toEqual([]);
  expect(skippedBy(null, "unheard of")).toEqual([]);
});
