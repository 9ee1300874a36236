import { type Io, printable } from "./io.ts";

export function print<T>(
  io: Pick<Io, "out">,
  { json }: { readonly json?: boolean | undefined },
  value: T,
  lines: (value: T) => Iterable<string>,
): void {
  // JSON.stringify writes no control character but its own line breaks.
  for (const line of json === true ? JSON.stringify(value, null, 2).split("\n") : lines(value))
    io.out(line);
}

export type Columns<Row> = Readonly<Record<string, (row: Row) => string | number | null>>;

/**
 * A table as lines: columns aligned, two spaces between, the last one as long as it is. Cells are
 * made safe to print.
 */
export function tableLines<Row>(rows: readonly Row[], columns: Columns<Row>): string[] {
  const head = Object.keys(columns);
  const cells = rows.map((row) => Object.values(columns).map((cell) => String(cell(row) ?? "")));
  const safe = [head, ...cells].map((row) => row.map(printable));
  const widths = head.map((_, column) => Math.max(...safe.map((row) => length(row[column] ?? ""))));
  return safe.map((row) =>
    row
      .map((cell, column) =>
        column === row.length - 1 ? cell : cell + " ".repeat((widths[column] ?? 0) - length(cell)),
      )
      .join("  ")
      .trimEnd(),
  );
}

function length(text: string): number {
  return [...text].length;
}

export function withCommas(value: number): string {
  return value.toLocaleString("en-US");
}

/** `2026-11-20 08:00:00.123`, in UTC, as tables show times; empty for null. */
export function timeText(iso: string | null): string {
  return iso === null ? "" : iso.replace("T", " ").replace("Z", "");
}

/** One word of a command to paste into a shell. */
export function shellWord(text: string): string {
  if (/^[\w./:@+=-]+$/.test(text)) return text;
  return process.platform === "win32" ? `"${text}"` : `'${text.replaceAll("'", "'\\''")}'`;
}

/** `1 route`, `2 deliveries`; also the entries of an object. */
export function counted(parts: number | object, what: string): string {
  const n = typeof parts === "number" ? parts : Object.keys(parts).length;
  return `${withCommas(n)} ${n === 1 ? what : `${what.replace(/y$/, "ie")}s`}`;
}

export function secondsText(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

/** Bytes for a person: `1.4 GiB`. */
export function bytesText(bytes: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  const unit = units.findLastIndex((_, power) => bytes >= 1024 ** power || power === 0);
  const value = bytes / 1024 ** unit;
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}
