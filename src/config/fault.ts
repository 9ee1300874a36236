/** A place in the settings, as keys and indices from the top. */
export type SettingsPath = readonly PropertyKey[];

/** One fault in the settings. Never quotes a secret or a value substituted from the environment. */
export interface Fault {
  /** Such as `routes[0].to.url`; empty for a fault of the whole file. */
  readonly path: string;
  readonly message: string;
  /** Such as `config/relay.yaml:31:10` (line and column from 1), `config/relay.yaml:31:10 from ${CRM_URL}`, or the file alone. */
  readonly source: string;
}

/** The settings are invalid. `faults` holds every fault, in the order of the file. */
export class SettingsError extends Error {
  override readonly name = "SettingsError";
  readonly faults: readonly Fault[];

  constructor(faults: readonly Fault[]) {
    super(faults.map(faultLine).join("\n"));
    this.faults = faults;
  }
}

/** A fault as one line: `config/relay.yaml:31:10 routes[0].to.url: is not a URL (from ${CRM_URL})`. */
export function faultLine(fault: Fault): string {
  const cut = fault.source.search(/ from (?:the default of )?\$\{/);
  const place = cut === -1 ? fault.source : fault.source.slice(0, cut);
  const variables = cut === -1 ? "" : ` (${fault.source.slice(cut + 1)})`;
  return `${place}${fault.path === "" ? "" : ` ${fault.path}`}: ${fault.message}${variables}`;
}

/**
 * `["routes", 0, "to", "url"]` as `routes[0].to.url`. A key that does not look like one becomes `[…]`: where a `: ` is
 * missing, it may contain a secret.
 */
export function pathText(path: SettingsPath): string {
  let text = "";
  for (const key of path.map((part) => (typeof part === "symbol" ? "" : part))) {
    if (typeof key === "number") text += `[${key}]`;
    else if (/^[A-Za-z_$][\w$-]{0,63}$/.test(key)) text += text === "" ? key : `.${key}`;
    else text += /^[\w$.<-]{1,64}$/.test(key) ? `["${key}"]` : "[…]";
  }
  return text;
}

/** The candidate closest to `word`; undefined when none is close. */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  const wanted = word.toLowerCase();
  let best: string | undefined;
  // One edit in three characters is a typing mistake; more is another word.
  let least = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const candidate of candidates) {
    const known = candidate.toLowerCase();
    // `warning` for `warn`, `max` for `maxInFlight`: counts as one edit.
    const isPart = Math.min(known.length, wanted.length) >= 3 && (known.startsWith(wanted) || wanted.startsWith(known));
    const distance = isPart ? Math.min(1, edits(wanted, known)) : edits(wanted, known);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

/** Fewest characters added, removed, replaced or swapped with their neighbor (optimal string alignment). */
function edits(a: string, b: string): number {
  // No key is this long, and the work is the product of both lengths.
  if (a.length > 64 || b.length > 64) return Number.POSITIVE_INFINITY;
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1];
      let cost = Math.min(at(last, column) + 1, at(current, column - 1) + 1, at(last, column - 1) + (same ? 0 : 1));
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
