import { randomBytes } from "node:crypto";
import { dirname } from "node:path";
import type { z } from "zod";
import { child } from "../model/json.ts";
import { MissingSecret, Secret } from "../model/secret.ts";
import { runSteps, type Steps } from "../model/steps.ts";
import { storageSchema } from "../store/settings.ts";
import {
  type Environment,
  largestFile,
  readErrorText,
  readTextFile,
  readVariables,
  type VariableSources,
} from "./env-file.ts";
import { type Fault, faultLine, pathText, SettingsError, type SettingsPath } from "./fault.ts";
import { checkReferences, findingsOf, settingText } from "./findings.ts";
import { shapesAt } from "./json-schema.ts";
import { readOnce, type Settings, serverSchema, settingsSchema, tokenSchema } from "./schema.ts";
import {
  type Finding,
  fileStart,
  type Place,
  placeKey,
  readTree,
  scalarOf,
  type Tree,
} from "./tree.ts";

/**
 * Reads and checks the settings file at `path`. Throws only {@link SettingsError}, with all faults.
 */
export function loadSettings(
  path: string,
  env: Environment,
  envFile?: string | undefined,
): Settings {
  return runSteps(loading(path, env, envFile));
}

/** {@link loadSettings} in steps, for a running relay: others are served while it reads. */
export function loading(
  path: string,
  env: Environment,
  envFile?: string | undefined,
): Steps<Settings> {
  return parsing(...read(path, { env, envFile }));
}

export interface ReadableSettings {
  readonly settings: Settings;
  /** Secrets whose variable is not set, or whose file cannot be read. */
  readonly missing: readonly Fault[];
}

/**
 * For commands that a user without the relay's secrets may run: a missing secret fails when it is
 * revealed, except in `storage`, where none may be missing.
 */
export function loadForReading(
  path: string,
  env: Environment,
  envFile?: string | undefined,
): ReadableSettings {
  return parseForReading(...read(path, { env, envFile }));
}

const read = (path: string, sources: VariableSources) =>
  [readText(path), path, readVariables(path, sources)] as const;

function readText(path: string): string {
  try {
    return readTextFile(path, largestFile);
  } catch (error) {
    const message = readErrorText(error as NodeJS.ErrnoException, "the settings file", "--config");
    throw new SettingsError([{ path: "", message, source: path }]);
  }
}

const inOwnWords = { ...readOnce, error: settingText, reportInput: true };

/**
 * The parts that are valid by themselves, whatever is faulty in the others; null: there are no
 * settings to read.
 */
export function loadParts(path: string, env: Environment, envFile?: string | undefined) {
  let tree: Tree;
  try {
    ({ tree } = runSteps(readSettings(...read(path, { env, envFile }))));
  } catch (error) {
    if (error instanceof SettingsError) return null;
    throw error;
  }
  const broken = (...path: SettingsPath) =>
    tree.findings.filter((finding) => path.every((key, depth) => finding.path[depth] === key));
  const part = <Part>(name: string, schema: z.ZodType<Part>): Part | null =>
    broken(name).length > 0
      ? null
      : (schema.safeParse(child(tree.value, name) ?? {}, readOnce).data ?? null);
  const given = child(child(tree.value, "control"), "tokens");
  const unusable = broken("control", "tokens").filter(({ isMissing }) => isMissing);
  const tokens = (Array.isArray(given) ? given : []).flatMap((item, index) => {
    if (broken("control", "tokens", index, "token").length > 0) return [];
    const { data, error } = tokenSchema.safeParse(item, inOwnWords);
    unusable.push(...findingsOf(error?.issues ?? [], ["control", "tokens", index]));
    return data === undefined ? [] : [data];
  });
  return {
    server: part("server", serverSchema),
    storage: part("storage", storageSchema),
    tokens,
    /** Why others cannot be used. */
    unusableTokens: toFaults(unusable, tree, path).map(faultLine),
  };
}

/**
 * For text and variables already read. `file` is the file name in faults; `${file:…}` is relative
 * to it.
 */
export function parseSettings(text: string, file: string, env: Environment): Settings {
  return runSteps(parsing(text, file, env));
}

function* parsing(text: string, file: string, env: Environment): Steps<Settings> {
  const { settings, tree, findings } = yield* readSettings(text, file, env);
  if (settings === null || findings.length > 0)
    throw new SettingsError(toFaults(findings, tree, file));
  return settings;
}

export function parseForReading(text: string, file: string, env: Environment): ReadableSettings {
  const standIns = new Map<string, MissingSecret>();
  const { settings, tree, findings } = runSteps(readSettings(text, file, env, standIns));
  const missing = findings.filter(isMissingSecret);
  const others = findings.filter((finding) => !isMissingSecret(finding));
  if (settings === null || others.length > 0)
    throw new SettingsError(toFaults(others.length > 0 ? others : findings, tree, file));
  const complete = replaceSecrets(settings, (secret) => standIns.get(secret.reveal()) ?? secret);
  return { settings: complete as Settings, missing: toFaults(missing, tree, file) };
}

/**
 * The settings with a random text for each missing secret: for a process that neither sends nor
 * verifies.
 */
export function withStandIns(settings: Settings): Settings {
  const standIn = (secret: Secret) =>
    secret instanceof MissingSecret ? new Secret(randomBytes(32).toString("hex")) : secret;
  return replaceSecrets(settings, standIn) as Settings;
}

function isMissingSecret({ isMissing, path }: Finding): boolean {
  return (
    isMissing === true &&
    path[0] !== "storage" &&
    (path.at(-2) === "headers" || shapesAt(path).some(({ title }) => title === "secret"))
  );
}

function replaceSecrets(value: unknown, replacement: (secret: Secret) => Secret): unknown {
  if (value instanceof Secret) return replacement(value);
  if (Array.isArray(value)) return value.map((item) => replaceSecrets(item, replacement));
  if (
    typeof value !== "object" ||
    value === null ||
    Object.getPrototypeOf(value) !== Object.prototype
  )
    return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, replaceSecrets(item, replacement)]),
  );
}

/**
 * Throws {@link SettingsError} for what is no mapping of settings at all. `standIns`: receives a
 * random text for each missing secret, which is in its place in the settings. `settings`: null when
 * they are invalid, apart from the findings of the tree.
 */
function* readSettings(
  text: string,
  file: string,
  env: Environment,
  standIns?: Map<string, MissingSecret>,
) {
  const tree = yield* readTree(text, env, dirname(file));
  const faults = (findings: readonly Finding[]) =>
    new SettingsError(toFaults(findings, tree, file));
  if (!tree.readable) throw faults(tree.findings);
  if (tree.value === null || tree.value === "")
    throw faults([{ path: [], message: "is empty: there are no settings in it" }]);
  if (typeof tree.value !== "object" || Array.isArray(tree.value)) {
    throw faults([
      { path: [], message: "must be a mapping of settings (server:, sources:, routes:, …)" },
    ]);
  }
  // `routes:` with every entry commented out counts as missing. Top level only: an empty `secret:`
  // must not pass.
  const top = tree.value as Record<string, unknown>;
  for (const [key, value] of Object.entries(top)) if (value === null) delete top[key];
  for (const finding of standIns === undefined ? [] : tree.findings.filter(isMissingSecret)) {
    const standIn = randomBytes(32).toString("hex");
    standIns?.set(
      standIn,
      new MissingSecret(toFaults([finding], tree, file).map(faultLine).join()),
    );
    change(tree.value, finding.path, () => standIn);
  }
  coerceVariables(tree);
  yield;
  const parsed = settingsSchema.safeParse(tree.value, inOwnWords);
  yield;
  const invalid = findingsOf(parsed.error?.issues ?? []);
  const findings = [tree.findings, invalid, [...checkReferences(tree.value)]].reduce(
    withoutFollowing,
  );
  return { tree, settings: parsed.data ?? null, findings };
}

/**
 * Drops later faults that follow from an earlier one at the same path, such as a variable that is
 * not set.
 */
function withoutFollowing(
  earlier: readonly Finding[],
  later: readonly Finding[],
): readonly Finding[] {
  const failed = new Set(earlier.map(({ path }) => placeKey(path)));
  return [...earlier, ...later.filter(({ path }) => !failed.has(placeKey(path)))];
}

function toFaults(findings: readonly Finding[], tree: Tree, file: string): Fault[] {
  return findings
    .map((finding) => {
      const place = placeOf(finding, tree.places);
      const offset =
        finding.offset ?? (finding.isAboutKey === true ? place.keyOffset : place.offset);
      const { line, col } = tree.lines.linePos(offset);
      const origins = [...new Set(place.origins)];
      const from =
        origins.length > 0 && finding.offset === undefined && finding.isAboutKey !== true
          ? ` from ${origins.join(" and ")}`
          : "";
      // Before the first line is counted (an empty file), the position is 0:0.
      const source = `${file}:${Math.max(line, 1)}:${Math.max(col, 1)}${from}`;
      return { offset, fault: { path: pathText(finding.path), message: finding.message, source } };
    })
    .sort((a, b) => a.offset - b.offset)
    .map(({ fault }) => fault);
}

function placeOf(finding: Finding, places: ReadonlyMap<string, Place>): Place {
  for (let length = finding.path.length; length >= 0; length--) {
    const place = places.get(placeKey(finding.path.slice(0, length)));
    if (place !== undefined) return place;
  }
  return fileStart;
}

/**
 * Gives values that are exactly one variable the type that their setting has, as if written in the
 * file. In the conditions of a route, where `5` and `"5"` differ, only quotes make a number text.
 * Changes `tree.value`.
 */
function coerceVariables({ value, places }: Tree): void {
  for (const [key, { variable }] of places) {
    if (variable === "none") continue;
    const path = JSON.parse(key) as SettingsPath;
    const isCondition =
      path[0] === "routes" &&
      path[2] === "match" &&
      (path[3] === "where" || path[3] === "metadata");
    change(value, path, (text) => {
      const scalar = scalarOf(text);
      if (typeof scalar === "string") return text;
      if (isCondition && variable === "plain") return scalar;
      const types = shapesAt(path).flatMap(({ type = [] }) => type);
      const isWanted =
        types.includes(typeof scalar) || (typeof scalar === "number" && types.includes("integer"));
      return isWanted && !types.includes("string") ? scalar : text;
    });
  }
}

function change(root: unknown, path: SettingsPath, convert: (text: string) => unknown): void {
  const parent = path.slice(0, -1).reduce(child, root);
  const key = path.at(-1);
  const before = key === undefined ? undefined : child(parent, key);
  if (typeof before === "string")
    (parent as Record<PropertyKey, unknown>)[key as PropertyKey] = convert(before);
}
