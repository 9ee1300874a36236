import type { z } from "zod";
import type { SettingsPath } from "./fault.ts";
import { scalarOf } from "./substitute.ts";
import { placeKey, type Tree } from "./tree.ts";

/**
 * Gives the values that were one variable and nothing else the type they would have had, written in the
 * file: `port: ${PORT}` is a number, because the setting is one. Text stays text wherever the setting may
 * be text (a token of digits only is a token), except in the conditions of a route, where `5` and `"5"`
 * are different values: there, as in YAML, only quotes make text of a number. Changes `tree.value`.
 */
export function coerceVariables(tree: Tree, issues: readonly z.core.$ZodIssue[]): void {
  for (const [path, keys] of conditionPaths(tree.value)) {
    if (tree.places.get(path)?.variable === "plain") change(tree.value, keys, (text) => scalarOf(text));
  }
  for (const issue of issuesWithin(issues)) {
    if (issue.code !== "invalid_type" || (tree.places.get(placeKey(issue.path))?.variable ?? "none") === "none") continue;
    const type = issue.expected === "boolean" ? "boolean" : issue.expected === "number" || issue.expected === "int" ? "number" : undefined;
    change(tree.value, issue.path, (text) => {
      const value = scalarOf(text);
      return typeof value === type ? value : text;
    });
  }
}

/** Those inside the alternatives of a union too, each with its whole path. */
function* issuesWithin(issues: readonly z.core.$ZodIssue[], base: SettingsPath = []): Generator<z.core.$ZodIssue> {
  for (const issue of issues) {
    const path = [...base, ...issue.path];
    yield { ...issue, path };
    if (issue.code === "invalid_union") for (const branch of issue.errors) yield* issuesWithin(branch, path);
  }
}

/** Every value inside `match.where` and `match.metadata` of the routes. */
function* conditionPaths(value: unknown): Generator<[string, SettingsPath]> {
  const routes = child(value, "routes");
  if (!Array.isArray(routes)) return;
  for (const [index, route] of routes.entries()) {
    for (const part of ["where", "metadata"]) yield* leaves(child(child(route, "match"), part), ["routes", index, "match", part]);
  }
}

function* leaves(value: unknown, path: SettingsPath): Generator<[string, SettingsPath]> {
  if (typeof value !== "object" || value === null) yield [placeKey(path), path];
  else if (Array.isArray(value)) for (const [index, item] of value.entries()) yield* leaves(item, [...path, index]);
  else for (const [key, item] of Object.entries(value)) yield* leaves(item, [...path, key]);
}

function change(root: unknown, path: SettingsPath, how: (text: string) => unknown): void {
  const parent = path.slice(0, -1).reduce(child, root);
  const key = path.at(-1);
  if (typeof parent !== "object" || parent === null || key === undefined) return;
  const holder = parent as Record<PropertyKey, unknown>;
  if (typeof holder[key] === "string") holder[key] = how(holder[key]);
}

function child(value: unknown, key: PropertyKey): unknown {
  return typeof value === "object" && value !== null && Object.hasOwn(value, key)
    ? (value as Record<PropertyKey, unknown>)[key]
    : undefined;
}
