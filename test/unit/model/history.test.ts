import fc from "fast-check";
import { expect, test } from "vitest";
import {
  bucketOf,
  type HistoryCell,
  quantile,
  type SeriesName,
  sampleOf,
  seriesNames,
  seriesQuery,
  seriesSchema,
  skippedBy,
  sumSeries,
} from "../../../src/model/history.ts";
import { toAnswer } from "../../../src/model/view.ts";

const now = 1_800_000_000_000;
const day = 86_400_000;

test("buckets grow with their values", () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true }), fc.double({ noNaN: true }), (a, b) => {
      const [low, high] = a < b ? [a, b] : [b, a];
      return bucketOf(low) <= bucketOf(high) && bucketOf(low) >= 0;
    }),
  );
});

test("a quantile is within a fifth of the exact one", () => {
  fc.assert(
    fc.property(
      fc.array(fc.double({ min: 1, max: 1e6, noNaN: true }), { minLength: 1 }),
      fc.constantFrom(0.5, 0.9, 0.99),
      (values, share) => {
        const buckets = new Map<number, number>();
        for (const value of values) buckets.set(bucketOf(value), (buckets.get(bucketOf(value)) ?? 0) + 1);
        const exact = values.toSorted((a, b) => a - b)[Math.max(0, Math.ceil(share * values.length) - 1)] ?? 0;
        const found = quantile(buckets, share) ?? 0;
        expect(found).toBeGreaterThanOrEqual(exact / 1.2 - 0.02);
        expect(found).toBeLessThanOrEqual(exact * 1.2 + 0.02);
      },
    ),
  );
  expect(quantile(new Map(), 0.5)).toBeNull();
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
    fc.property(fc.array(cell), fc.constantFrom(...names), fc.constantFrom("minute", "hour", "day"), (cells, name: SeriesName, step) => {
      const query = seriesQuery({ name, from: now - day, to: now, step }, now);
      const whole = cells.filter(({ at }) => at >= query.from && at < query.to).reduce((sum, { n }) => sum + n, 0);
      const all = sumSeries(query, cells as HistoryCell[]).series;
      expect(all.reduce((sum, { total }) => sum + (total ?? 0), 0)).toBe(whole);
      for (const { values, total } of all) {
        expect(values).toHaveLength((query.to - query.from) / query.step / 1000);
        expect(values.reduce<number>((sum, n) => sum + (n ?? 0), 0)).toBe(total);
      }
    }),
  );
});

test("many labels: the rest is other", () => {
  const cells = Array.from({ length: 80 }, (_, n) => ({ subject: "", label: `code ${n}`, at: now, n: 80 - n }));
  const query = seriesQuery({ name: "failures", from: now - 60_000, to: now + 60_000 }, now);
  const { series } = sumSeries(query, cells);
  expect(series).toHaveLength(50);
  expect(series.at(-1)).toMatchObject({ label: "other", total: (31 * 32) / 2 });
});

test("the step follows the range, and minutes older than two days are read by hour", () => {
  const stepOf = (days: number, ago = 0, step?: "minute") =>
    seriesQuery({ name: "events", from: now - (days + ago) * day, to: now - ago * day, step }, now).step;
  expect([stepOf(1), stepOf(1.5), stepOf(31), stepOf(32)]).toEqual([60, 3600, 3600, 86_400]);
  expect([stepOf(1, 3), stepOf(0.1, 3, "minute"), stepOf(1.9, 0, "minute")]).toEqual([3600, 3600, 60]);
});

test("steps in the future have no values; the answer fits its schema", () => {
  const query = seriesQuery({ name: "events", from: now, to: now + 3 * 60_000 }, now);
  const view = sumSeries(query, [{ subject: "main", label: "routed", at: query.from, n: 2 }]);
  expect(view.series).toEqual([{ label: "routed", values: [2, null, null, null].slice(0, view.series[0]?.values.length), total: 2 }]);
  expect(seriesSchema.parse(toAnswer(seriesSchema, view))).toMatchObject({ step: 60, unit: "count", by: "disposition" });
});

test("a transition passes over the statuses between, and none that failed", () => {
  expect(skippedBy(null, "read")).toEqual(["sent", "delivered"]);
  expect(skippedBy("sent", "read")).toEqual(["delivered"]);
  expect(skippedBy("failed", "delivered")).toEqual([]);
  expect(skippedBy(null, "failed")).toEqual(["sent"]);
  expect(skippedBy("pending", "received")).toEqual([]);
  expect(skippedBy(null, "unheard of")).toEqual([]);
});

test("a sample has stretches of equal length, spread over the whole range, without overlaps", () => {
  expect(sampleOf({ after: 5, last: 15 }, 10)).toEqual({ share: 1, stretches: [{ after: 5, last: 15 }] });
  expect(sampleOf({ after: 0, last: 10 }, 1)).toEqual({ share: 0.1, stretches: [{ after: 0, last: 1 }] });
  fc.assert(
    fc.property(fc.nat(1_000_000), fc.integer({ min: 1, max: 1_000_000 }), fc.integer({ min: 1, max: 100_000 }), (after, total, most) => {
      const last = after + total;
      const { share, stretches } = sampleOf({ after, last }, most);
      const read = stretches.reduce((sum, stretch) => sum + stretch.last - stretch.after, 0);
      expect(read).toBeLessThanOrEqual(Math.min(total, most));
      expect(read / total).toBeCloseTo(share);
      expect(stretches[0]?.after).toBe(after);
      if (stretches.length > 1) expect(stretches.at(-1)?.last).toBe(last);
      for (const [index, stretch] of stretches.entries()) {
        expect(stretch.after).toBeGreaterThanOrEqual(stretches[index - 1]?.last ?? after);
      }
    }),
  );
});
