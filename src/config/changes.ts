import { comparableText } from "../model/secret.ts";
import { pathText } from "./fault.ts";

/**
 * Paths of the settings that differ, sorted, such as `routes[crm].to.url`. Entries of lists with names are matched by name; any
 * other list is one setting. A secret is never part of a path.
 */
export function changedPaths(before: unknown, after: unknown): string[] {
  return [...differences(before, after, "")].toSorted();
}

function* differences(before: unknown, after: unknown, path: string): Generator<string> {
  if (isNamedList(before) && isNamedList(after)) {
    const [old, next] = [byName(before), byName(after)];
    for (const name of new Set([...old.keys(), ...next.keys()])) yield* differences(old.get(name), next.get(name), `${path}[${name}]`);
  } else if (isSection(before) && isSection(after)) {
    for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
      // `.key` or `["key"]`, as below any other key.
      yield* differences(before[key], after[key], path === "" ? pathText([key]) : `${path}${pathText(["x", key]).slice(1)}`);
    }
  } else if (before !== after && comparableText(before) !== comparableText(after)) yield path;
}

type Named = Readonly<Record<string, unknown>> & { readonly name: string };

/** Routes and tokens. Both have names that are unique within their list. */
function isNamedList(value: unknown): value is readonly Named[] {
  return Array.isArray(value) && value.every((item) => typeof (item as { name?: unknown } | null)?.name === "string");
}

function byName(list: readonly Named[]): Map<string, unknown> {
  return new Map(list.map((item) => [item.name, item]));
}

/** A plain object. Others, such as secrets and compiled patterns, are values. */
function isSection(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
