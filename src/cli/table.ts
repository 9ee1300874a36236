import { printable } from "./printable.ts";

/** A table as lines: columns aligned, two spaces between, the last one as long as it is. Cells are made safe to print. */
export function tableLines(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const safe = [head, ...rows].map((row) => row.map(printable));
  const widths = head.map((_, column) => Math.max(...safe.map((row) => length(row[column] ?? ""))));
  return safe.map((row) =>
    row
      .map((cell, column) => (column === row.length - 1 ? cell : cell + " ".repeat((widths[column] ?? 0) - length(cell))))
      .join("  ")
      .trimEnd(),
  );
}

function length(text: string): number {
  return [...text].length;
}
