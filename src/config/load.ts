import { isUtf8 } from "node:buffer";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import type { z } from "zod";
import { MissingSecret, Secret } from "../model/secret.ts";
import { checkReferences } from "./check-references.ts";
import { readVariables } from "./env-file.ts";
import { type Fault, faultLine, pathText, SettingsError, type SettingsPath } from "./fault.ts";
import { shapesAt } from "./json-schema.ts";
import { readOnce, type Settings, serverSchema, settingsSchema, type TokenSettings, tokenSchema } from "./schema.ts";
import { type Environment, type Finding, type Place, placeKey, readTree, scalarOf, type Tree } from "./tree.ts";
import { findingsOf, issueText } from "./wording.ts";

/** Far larger than any settings; a data file passed by mistake must not be parsed for minutes. */
const largestFile = 1024 * 1024;

/**
 * Reads the settings file at `path`, fills in `${…}` from `env`, the env file and secret files, and checks everything.
 * Throws only {@link SettingsError}, with all faults.
 */
export function loadSettings(path: string, env: Environment, envFile?: string | undefined): Settings {
  return parseSettings(readText(path), path, readVariables(path, { env, envFile }));
}

/** Settings of which values may be missing. */
export interface ReadableSettings {
  readonly settings: Settings;
  /** Values whose variable is not set, or whose file cannot be read. */
  readonly missing: readonly Fault[];
}

/**
 * Like {@link loadSettings}, for commands that only look: a user without the relay's secrets may run them. Only `storage` must be
 * complete. Elsewhere a missing secret fails when it is revealed. Another missing value is left out, and the entry that needs it.
 */
export function loadForReading(path: string, env: Environment, envFile?: string | undefined): ReadableSettings {
  return parseForReading(readText(path), path, readVariables(path, { env, envFile }));
}

/** The settings file. Throws {@link SettingsError}. */
function readText(path: string): string {
  const fault = (message: string) => new SettingsError([{ path: "", message, source: path }]);
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    throw fault(readErrorText((error as NodeJS.ErrnoException).code));
  }
  if (bytes.length > largestFile) throw fault("is larger than 1 MiB: is this the settings file?");
  if (!isUtf8(bytes)) throw fault("is not UTF-8 text");
  return bytes.toString("utf8");
}

/** The parts of the settings that a command needs to reach the running relay. */
export type ReachableRelay = Pick<Settings, "server"> & { readonly tokens: readonly TokenSettings[] };

/** Address and valid tokens, whatever is faulty in other parts of the file. Null when the file or its `server` cannot be read. */
export function loadReachable(path: string, env: Environment, envFile?: string | undefined): ReachableRelay | null {
  let tree: Tree;
  try {
    tree = readTree(readText(path), readVariables(path, { env, envFile }), dirname(path));
  } catch (error) {
    if (error instanceof SettingsError) return null;
    throw error;
  }
  if (!tree.readable || typeof tree.value !== "object" || tree.value === null) return null;
  coerceVariables(tree, settingsSchema.safeParse(tree.value, readOnce).error?.issues ?? []);
  const server = serverSchema.safeParse(child(tree.value, "server") ?? {}, readOnce);
  const given = child(child(tree.value, "control"), "tokens");
  const broken = new Set(tree.findings.map(({ path: at }) => placeKey(at)));
  const tokens = (Array.isArray(given) ? given : []).flatMap((item, index) => {
    const parsed = tokenSchema.safeParse(item, readOnce);
    return parsed.success && !broken.has(placeKey(["control", "tokens", index, "token"])) ? [parsed.data] : [];
  });
  return server.success ? { server: server.data, tokens } : null;
}

function readErrorText(code: string | undefined): string {
  if (code === "ENOENT") return "file not found (--config sets its path)";
  if (code === "EISDIR") return "is a directory, not a settings file";
  if (code === "EACCES" || code === "EPERM") return "may not be read by this user";
  return `cannot be read (${code ?? "unknown error"})`;
}

/** Like {@link loadSettings}, for text and variables already read. `file` is the file name in faults; `${file:…}` is relative to it. */
export function parseSettings(text: string, file: string, env: Environment): Settings {
  const { settings, tree, findings } = readSettings(text, file, env);
  if (settings === null || findings.length > 0) throw new SettingsError(toFaults(findings, tree, file));
  return settings;
}

/** Like {@link loadForReading}, for text and variables already read. */
export function parseForReading(text: string, file: string, env: Environment): ReadableSettings {
  const { settings, tree, findings } = readSettings(text, file, env);
  const missing = findings.filter(({ isMissing, path }) => isMissing === true && path[0] !== "storage");
  const followsFrom = (path: SettingsPath) => missing.some((each) => path.every((key, depth) => key === each.path[depth]));
  const others = findings.filter((finding) => !missing.includes(finding) && !followsFrom(finding.path));
  if (others.length > 0) throw new SettingsError(toFaults(others, tree, file));
  const faults = missing.map((finding) => toFaults([finding], tree, file)[0] as Fault);
  const complete =
    settings ??
    withoutValues(
      tree.value,
      missing.map(({ path }, index) => [path, faults[index] as Fault]),
    );
  if (complete === null) throw new SettingsError(toFaults(findings, tree, file));
  return { settings: complete, missing: faults };
}

/**
 * Settings in which a {@link MissingSecret} stands for each missing secret. Other missing values are left out; so is the entry that
 * cannot be without one. Null when that is not enough. Changes `value`.
 */
function withoutValues(value: unknown, missing: readonly (readonly [SettingsPath, Fault])[]): Settings | null {
  const options = { ...readOnce };
  const standIns = new Map<string, MissingSecret>();
  // From the end, so that places in lists stay what they are.
  for (const [path, fault] of missing.toReversed()) {
    if (!isSecret(path)) remove(value, path);
    else {
      const standIn = randomBytes(32).toString("hex");
      standIns.set(standIn, new MissingSecret(faultLine(fault)));
      change(value, path, () => standIn);
    }
  }
  const faulty = new Set((settingsSchema.safeParse(value, options).error?.issues ?? []).map(({ path }) => placeKey(entryOf(path))));
  for (const entry of missing.map(([path]) => entryOf(path)).toReversed()) if (faulty.delete(placeKey(entry))) remove(value, entry);
  const { data = null } = settingsSchema.safeParse(value, options);
  return replaceSecrets(data, standIns) as Settings | null;
}

function isSecret(path: SettingsPath): boolean {
  return shapesAt(path).some(({ title }) => title === "secret");
}

function replaceSecrets(value: unknown, standIns: ReadonlyMap<string, MissingSecret>): unknown {
  if (value instanceof Secret) return standIns.get(value.reveal()) ?? value;
  if (Array.isArray(value)) return value.map((item) => replaceSecrets(item, standIns));
  if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, replaceSecrets(item, standIns)]));
}

/** `routes[1]`, `sources.main` or `control.tokens[0]` of a path below it. */
function entryOf(path: SettingsPath): SettingsPath {
  return path.slice(0, path[0] === "control" ? 3 : 2);
}

function remove(root: unknown, path: SettingsPath): void {
  const parent = path.slice(0, -1).reduce(child, root);
  const key = path.at(-1);
  if (Array.isArray(parent) && typeof key === "number") parent.splice(key, 1);
  else if (typeof parent === "object" && parent !== null && key !== undefined) Reflect.deleteProperty(parent, key);
}

interface ReadSettings {
  readonly tree: Tree;
  /** Null when there are findings. */
  readonly settings: Settings | null;
  readonly findings: readonly Finding[];
}

/** Throws {@link SettingsError} for what is no mapping of settings at all. */
function readSettings(text: string, file: string, env: Environment): ReadSettings {
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
  const isValid = parsed.success && findings.length === 0;
  return { tree, settings: isValid ? parsed.data : null, findings: withoutFollowing(findings, tree) };
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
