import type { RelayQuality, RelaySeries } from "../../client/relay-client.ts";

type Series = RelaySeries["series"][number];

/** The label of all codes but the most frequent. */
export const otherCodes = "other";

/** The `most - 1` largest series, and the sum of the others as {@link otherCodes}. */
export function topSeries(series: readonly Series[], most: number): Series[] {
  const sorted = series
    .filter(({ total }) => (total ?? 0) > 0)
    .toSorted((a, b) => (b.total ?? 0) - (a.total ?? 0));
  if (sorted.length <= most) return sorted;
  const others = sorted.slice(most - 1);
  const [first] = others;
  if (first === undefined) return sorted;
  const values = first.values.map((_, index) =>
    others.reduce((sum, each) => sum + (each.values[index] ?? 0), 0),
  );
  return [
    ...sorted.slice(0, most - 1),
    { label: otherCodes, values, total: others.reduce((sum, { total }) => sum + (total ?? 0), 0) },
  ];
}

/**
 * One line for each number. A cell that a spreadsheet would read as a formula gets an apostrophe
 * before it.
 */
export function csvOf({
  sent,
  delivered,
  read,
  failed,
  pending,
  errors,
  toDelivered,
  toRead,
}: RelayQuality): string {
  const rows: (readonly (string | number | null)[])[] = [
    ["figure", "code", "value", "meaning"],
    ...Object.entries({ pending, sent, delivered, read, failed }).map(([name, value]) => [
      name,
      null,
      value,
      null,
    ]),
    ...Object.entries({
      "seconds to delivered, p50": toDelivered.p50,
      "seconds to delivered, p90": toDelivered.p90,
      "seconds to read, p50": toRead.p50,
      "seconds to read, p90": toRead.p90,
    }).map(([name, value]) => [name, null, value, null]),
    ...errors.map(({ code, count, meaning }) => ["failed with code", code, count, meaning]),
  ];
  return rows.map((row) => `${row.map(cellOf).join(",")}\r\n`).join("");
}

function cellOf(value: string | number | null): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
