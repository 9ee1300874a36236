import { maskText } from "../model/mask.ts";
import { type Io, printable } from "./io.ts";

/** Prints a value as JSON with `--json`, else as lines for people. */
export function print<T>(
  io: Pick<Io, "out">,
  { json }: { readonly json?: boolean | undefined },
  value: T,
  lines: (value: T) => Iterable<string>,
): void {
  // JSON.stringify writes no control character but its own line breaks.
  for (const line of json === true ? JSON.stringify(value, null, 2).split("\n") : lines(value)) io.out(line);
}

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

/** `12,345`, as people read counts. */
export function withCommas(value: number): string {
  return value.toLocaleString("en-US");
}

/** `2026-11-20 08:00:00.123`, in UTC, as tables show times; empty for null. */
export function timeText(iso: string | null): string {
  return iso === null ? "" : iso.replace("T", " ").replace("Z", "");
}

/** How a command shows personal data. */
export interface Privacy {
  /** `--show-pii`. */
  readonly showPii: boolean;
  /** The relay masked already, because the token lacks the scope `pii`: masking a mask would give another one. */
  readonly isRelaysMask: boolean;
}

/** `--show-pii` or not. `client`: what the data was read from; when its token cannot see personal data, the command says why. */
export function privacyOf(showPii: boolean | undefined, client?: { isMasked?(): boolean }, io?: Pick<Io, "err">): Privacy {
  const isRelaysMask = client?.isMasked?.() === true;
  if (isRelaysMask && showPii === true)
    io?.err("wamid-relay: the token lacks the scope pii, so the relay masks wamids, phone numbers and bodies");
  return { showPii: showPii === true, isRelaysMask };
}

/** Text from outside for a terminal. */
export function privateText(text: string, { showPii }: Pick<Privacy, "showPii">): string {
  return showPii ? text : maskText(text);
}

/** `1 route`, `2 routes`; also the entries of an object. */
export function counted(parts: number | object, what: string): string {
  const n = typeof parts === "number" ? parts : Object.keys(parts).length;
  return `${n} ${what}${n === 1 ? "" : "s"}`;
}
