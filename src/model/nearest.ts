import { RelayError } from "./errors.ts";
import { compileGlobs, eventKinds, statusWords } from "./statuses.ts";

export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  const wanted = word.toLowerCase();
  let best: string | undefined;
  // One edit in three characters is a typing mistake; more is another word.
  let least = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const candidate of candidates) {
    const known = candidate.toLowerCase();
    // `warning` for `warn`, `max` for `maxInFlight`: counts as one edit.
    const isPart =
      Math.min(known.length, wanted.length) >= 3 &&
      (known.startsWith(wanted) || wanted.startsWith(known));
    const distance = isPart ? Math.min(1, edits(wanted, known)) : edits(wanted, known);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

/**
 * Fewest characters added, removed, replaced or swapped with their neighbor (optimal string
 * alignment).
 */
function edits(a: string, b: string): number {
  // No key is this long, and the work is the product of both lengths.
  if (a.length > 64 || b.length > 64) return Number.POSITIVE_INFINITY;
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1];
      let cost = Math.min(
        at(last, column) + 1,
        at(current, column - 1) + 1,
        at(last, column - 1) + (same ? 0 : 1),
      );
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]) {
        cost = Math.min(cost, at(beforeLast, column - 2) + 1);
      }
      current.push(cost);
    }
    beforeLast = last;
    last = current;
  }
  return at(last, b.length);
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY;
}

export function refuseUnknown(
  code: "not_found" | "bad_request",
  what: string,
  name: string,
  known: readonly string[],
): void {
  if (!known.includes(name)) throw new RelayError(code, unknownName(what, name, known), known);
}

export function unknownName(what: string, name: string, known: readonly string[]): string {
  const candidate = nearest(name, known);
  const hint = candidate === undefined ? "" : `did you mean ${candidate}? `;
  return `unknown ${what} "${name}" (${hint}${known.length === 0 ? `there are no ${what}s` : `there are: ${known.join(", ")}`})`;
}

/**
 * `did you mean main?`, else the list of what there is. `known` is not empty, or `nothing` says so.
 */
export function suggestion(
  word: string,
  known: readonly string[],
  nothing = "there are none",
): string {
  const candidate = nearest(word, known);
  if (candidate !== undefined) return `did you mean ${candidate}?`;
  return known.length === 0 ? nothing : `there are: ${known.join(", ")}`;
}

export function statusHint(word: string): string | null {
  return statusWords.includes(word) ? null : suggestion(word, statusWords);
}

export function kindHint(pattern: string, kinds: readonly string[] = eventKinds): string | null {
  const fits = compileGlobs([pattern]);
  if (kinds.some((kind) => fits(kind))) return null;
  const families = [...new Set(kinds.map((kind) => kind.replace(/\..*/, ".*")))];
  return suggestion(pattern, pattern.includes("*") ? families : kinds);
}
