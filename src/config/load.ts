import { isUtf8 } from "node:buffer";
import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import type { z } from "zod";
import { checkReferences } from "./check-references.ts";
import { readVariables } from "./env-file.ts";
import { type Fault, pathText, SettingsError, type SettingsPath } from "./fault.ts";
import { readOnce, type Settings, settingsSchema } from "./schema.ts";
import { type Environment, type Finding, type Place, placeKey, readTree, scalarOf, type Tree } from "./tree.ts";
import { findingsOf, issueText } from "./wording.ts";

/** Far larger than any settings; a data file passed by mistake must not be parsed for minutes. */
const largestFile = 1024 * 1024;

/**
 * Reads the settings file at `path`, fills in `${…}` from `env`, the env file and secret files, and checks everything.
 * Throws only {@link SettingsError}, with all faults.
 */
export function loadSettings(path: string, env: Environment, envFile?: string | undefined): Settings {
  const fault = (message: string) => new SettingsError([{ path: "", message, source: path }]);
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    throw fault(readErrorText((error as NodeJS.ErrnoException).code));
  }
  if (bytes.length > largestFile) throw fault("is larger than 1 MiB: is this the settings file?");
  if (!isUtf8(bytes)) throw fault("is not UTF-8 text");
  return parseSettings(bytes.toString("utf8"), path, readVariables(path, { env, envFile }));
}

function readErrorText(code: string | undefined): string {
  if (code === "ENOENT") return "file not found (--config sets its path)";
  if (code === "EISDIR") return "is a directory, not a settings file";
  if (code === "EACCES" || code === "EPERM") return "may not be read by this user";
  return `cannot be read (${code ?? "unknown error"})`;
}

/** Like {@link loadSettings}, for text and variables already read. `file` is the file name in faults; `${file:…}` is relative to it. */
export function parseSettings(text: string, file: string, env: Environment): Settings {
  const tree = readTree(text, env, dirname(file));
  const faults = (findings: readonly Finding[]) => new SettingsError(toFaults(findings, tree, file));
  if (!tree.readable) throw faults(tree.findings);
  if (tree.value === null || tree.value === "") throw faults([{ path: [], message: "is empty: there are no settings in it" }]);
  if (typeof tree.value !== "object" || Array.isArray(tree.value)) {
    throw faults([{ path: [], message: "must be a mapping of settings (server:, sources:, routes:, …)" }]);
  }
  dropEmptySections(tree.value as Record<string, unknown>);
  const options = { ...readOnce, error: issueText };
  const first = settingsSchema.safeParse(tree.value, options);
  coerceVariables(tree, first.error?.issues ?? []);
  const parsed = settingsSchema.safeParse(tree.value, options);
  const findings = [
    ...tree.findings,
    ...(parsed.success ? [] : findingsOf(parsed.error.issues).map((finding) => withoutHidden(finding, tree.places))),
    ...checkReferences(tree.value),
  ];
  if (!parsed.success || findings.length > 0) throw faults(withoutFollowing(findings, tree));
  return parsed.data;
}

/** `routes:` with every entry commented out counts as missing. Top level only: an empty `secret:` must not pass. */
function dropEmptySections(top: Record<string, unknown>): void {
  for (const [key, value] of Object.entries(top)) if (value === null) delete top[key];
}

/** A schema's own message may quote the value, as one for a regular expression does. Values from variables stay hidden. */
function withoutHidden(finding: Finding, places: ReadonlyMap<string, Place>): Finding {
  const hidden = finding.mayQuote === true ? (places.get(placeKey(finding.path))?.hidden ?? []) : [];
  if (!hidden.some((part) => finding.message.includes(part))) return finding;
  return { ...finding, message: "is not valid (the value comes from a variable and is not shown)" };
}

/** Drops faults that follow from an earlier one, such as an invalid URL whose variable is not set. */
function withoutFollowing(findings: readonly Finding[], tree: Tree): Finding[] {
  const failed = new Set(tree.findings.map((finding) => placeKey(finding.path)));
  return findings.filter((finding, index) => index < tree.findings.length || !failed.has(placeKey(finding.path)));
}

function toFaults(findings: readonly Finding[], tree: Tree, file: string): Fault[] {
  return findings
    .map((finding) => {
      const place = placeOf(finding, tree.places);
      const offset = finding.offset ?? (finding.isAboutKey === true ? place.keyOffset : place.offset);
      const { line, col } = tree.lines.linePos(offset);
      const origins = [...new Set(place.origins)];
      const from =
        origins.length > 0 && finding.offset === undefined && finding.isAboutKey !== true ? ` from ${origins.join(" and ")}` : "";
      // Before the first line is counted (an empty file), the position is 0:0.
      const source = `${file}:${Math.max(line, 1)}:${Math.max(col, 1)}${from}`;
      return { offset, fault: { path: pathText(finding.path), message: finding.message, source } };
    })
    .sort((a, b) => a.offset - b.offset)
    .map(({ fault }) => fault);
}

/** The place of a path, or of its nearest ancestor in the file. */
function placeOf(finding: Finding, places: ReadonlyMap<string, Place>): Place {
  for (let length = finding.path.length; length >= 0; length--) {
    const place = places.get(placeKey(finding.path.slice(0, length)));
    if (place !== undefined) return place;
  }
  return { offset: 0, keyOffset: 0, origins: [], hidden: [], variable: "none" };
}

/**
 * Gives values that are exactly one variable the type they would have if written in the file: `port: ${PORT}` becomes a
 * number, because the setting is one. Text stays text where the setting may be text (a token may be all digits), except in
 * the conditions of a route, where `5` and `"5"` differ and only quotes make a number text. Changes `tree.value`.
 */
function coerceVariables(tree: Tree, issues: readonly z.core.$ZodIssue[]): void {
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

/** Includes issues inside the alternatives of a union, each with its full path. */
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

function change(root: unknown, path: SettingsPath, convert: (text: string) => unknown): void {
  const parent = path.slice(0, -1).reduce(child, root);
  const key = path.at(-1);
  if (typeof parent !== "object" || parent === null || key === undefined) return;
  const holder = parent as Record<PropertyKey, unknown>;
  if (typeof holder[key] === "string") holder[key] = convert(holder[key]);
}

function child(value: unknown, key: PropertyKey): unknown {
  return typeof value === "object" && value !== null && Object.hasOwn(value, key)
    ? (value as Record<PropertyKey, unknown>)[key]
    : undefined;
}
