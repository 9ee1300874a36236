import { parse } from "csv-parse/sync";
import { expect, test } from "vitest";
import { csvOf, topSeries } from "../../../src/console/quality/numbers.ts";

const series = (label: string, ...values: (number | null)[]) => ({
  label,
  values,
  total: values.reduce<number>((sum, value) => sum + (value ?? 0), 0),
});

test("the largest series stay, and the others add up to one", () => {
  const given = [series("a", 1, null), series("b", 5, 5), series("c", 2, 2), series("none", 0, 0)];
  expect(topSeries(given, 3).map(({ label }) => label)).toEqual(["b", "c", "a"]);
  expect(topSeries(given, 2)).toEqual([
    series("b", 5, 5),
    { label: "other", values: [3, 2], total: 5 },
  ]);
});

test("the CSV can be read back, and no cell is a formula", () => {
  const errors = [{ code: "=1+1", count: 2, meaning: 'a "quoted", long\r\nmeaning' }];
  const quality = {
    sent: 9,
    delivered: 8,
    read: 7,
    failed: 2,
    pending: 1,
    errors,
    toDelivered: { p50: 2, p90: null },
    toRead: { p50: 60, p90: 90 },
  };
  const rows = parse(csvOf(quality)) as string[][];
  expect(rows.every((row) => row.length === 4)).toBe(true);
  expect(rows).toContainEqual(["failed with code", "'=1+1", "2", 'a "quoted", long\r\nmeaning']);
  expect(rows).toContainEqual(["seconds to delivered, p90", "", "", ""]);
});
