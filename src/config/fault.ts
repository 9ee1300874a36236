import { comparableText } from "../model/secret.ts";

export type SettingsPath = readonly PropertyKey[];

/** One fault in the settings. Never quotes a secret or a value substituted from the environment. */
export interface Fault {
  /** Such as `routes[0].to.url`; empty for a fault of the whole file. */
  readonly path: string;
  readonly message: string;
  /**
   * Such as `config/relay.yaml:31:10 from ${CRM_URL}` (line and column from 1), or the file alone.
   */
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

export function faultLine(fault: Fault): string {
  const cut = fault.source.search(/ from (?:the default of )?\$\{/);
  const place = cut === -1 ? fault.source : fault.source.slice(0, cut);
  const variables = cut === -1 ? "" : ` (${fault.source.slice(cut + 1)})`;
  return `${place}${fault.path === "" ? "" : ` ${fault.path}`}: ${fault.message}${variables}`;
}

/**
 * Such as `routes[0].to.url`. A key that does not look like one becomes `[…]`: where a `: ` is
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

/**
 * Paths of the settings that differ, sorted, such as `routes[crm].to.url`. Entries of lists with
 * names are matched by name; any other list is one setting. A secret is never part of a path.
 */
export function changedPaths(before: unknown, after: unknown): string[] {
  return [...differences(before, after, "")].toSorted();
}

function* differences(before: unknown, after: unknown, path: string): Generator<string> {
  if (isNamedList(before) && isNamedList(after)) {
    const [old, next] = [byName(before), byName(after)];
    for (const name of new Set([...old.keys(), ...next.keys()]))
      yield* differences(old.get(name), next.get(name), `${path}[${name}]`);
  } else if (isSection(before) && isSection(after)) {
    for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
      // `.key` or `["key"]`, as below any other key.
      yield* differences(
        before[key],
        after[key],
        path === "" ? pathText([key]) : `${path}${pathText(["x", key]).slice(1)}`,
      );
    }
  } else if (before !== after && comparableText(before) !== comparableText(after)) yield path;
}

type Named = Readonly<Record<string, unknown>> & { readonly name: string };

/** Routes and tokens. Both have names that are unique within their list. */
function isNamedList(value: unknown): value is readonly Named[] {
  return (
    Array.isArray(value) &&
    value.every((item) => typeof (item as { name?: unknown } | null)?.name === "string")
  );
}

function byName(list: readonly Named[]): Map<string, unknown> {
  return new Map(list.map((item) => [item.name, item]));
}

/** A plain object. Others, such as secrets and compiled patterns, are values. */
function isSection(value: unknown): value is Readonly<Record<string, unknown>> {
  return (
    typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype
  );
}
