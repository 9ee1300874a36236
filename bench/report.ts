import { quantile } from "./load/measure.ts";

/** One figure measured in several rounds. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

export function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  return {
    median: round(quantile(sorted, 0.5)),
    min: round(sorted[0] ?? Number.NaN),
    max: round(sorted.at(-1) ?? Number.NaN),
  };
}

/**
 * Ratio of two sides, round by round, and the spread of those: what the machine did at a time, it
 * did to both. Of rounds that only one side has, nothing.
 */
export function ratioOf(above: readonly number[], below: readonly number[]): Spread {
  const rounds = Math.min(above.length, below.length);
  return spreadOf(
    Array.from(
      { length: rounds },
      (_, index) => (above[index] as number) / (below[index] as number),
    ),
  );
}

/** Three digits that count, whatever the size. */
export function round(value: number): number {
  return Math.abs(value) >= 1000 ? Math.round(value) : Number(value.toPrecision(3));
}

/** Lines of a table, first column to the left, the others to the right. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const all = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...all.map((row) => (row[column] ?? "").length)));
  return all.map((row) =>
    row
      .map((cell, column) =>
        column === 0 ? cell.padEnd(widths[0] as number) : cell.padStart(widths[column] as number),
      )
      .join("  "),
  );
}

/** The last line of every bench, for programs to read. */
export function printResult(bench: string, machine: object, figures: object, ratios: object): void {
  console.log(JSON.stringify({ bench, machine, figures, ratios }));
}
