import type { z } from "zod";
import { destinationKeys } from "../deliver/settings.ts";
import { issueText, jsonKinds } from "../model/issue-text.ts";
import { isObject } from "../model/json.ts";
import { nearest, suggestion } from "../model/nearest.ts";
import type { SettingsPath } from "./fault.ts";
import { knownKeys } from "./json-schema.ts";
import { repeated } from "./rules.ts";
import { onlyAccount } from "./schema.ts";
import type { Finding } from "./tree.ts";

const kinds = { ...jsonKinds, object: "a mapping", record: "a mapping" };

/** Replaces zod's messages. Messages of the schemas take precedence. */
export function settingText(issue: z.core.$ZodRawIssue): string {
  if (issue.input === null) return "is empty";
  const isQuoteMissing =
    issue.code === "invalid_type" && issue.expected === "string" && issue.input !== undefined;
  const isSpaceMissing =
    issue.code === "invalid_type" &&
    typeof issue.input === "string" &&
    ["object", "record"].includes(issue.expected) &&
    /^\w+:(?!\/\/)\S/.test(issue.input);
  return `${issueText(issue, kinds)}${isQuoteMissing ? " (put it in quotes)" : ""}${isSpaceMissing ? " (put a space after ':')" : ""}`;
}

/**
 * The findings for zod's issues: one for each unknown key, and for a union those of the shape that
 * was intended.
 */
export function findingsOf(
  issues: readonly z.core.$ZodIssue[],
  base: SettingsPath = [],
): Finding[] {
  return issues.flatMap((issue) => {
    const path = [...base, ...issue.path];
    switch (issue.code) {
      case "unrecognized_keys":
        return issue.keys.map((key) => ({
          path: [...path, key],
          message: unknownKeyText(path, key),
          isAboutKey: true,
        }));
      case "invalid_key":
        return findingsOf(issue.issues as z.core.$ZodIssue[], path).map((finding) => ({
          ...finding,
          isAboutKey: true,
        }));
      case "invalid_union":
        return unionFindings(issue, path);
      default:
        return [{ path, message: issue.message }];
    }
  });
}

function unknownKeyText(path: SettingsPath, key: string): string {
  const known = knownKeys(path);
  // A key of another shape, such as `mode` on a source of kind events.
  if (known.has(key)) return `unknown setting here (it belongs to another ${shapeName(path)})`;
  const candidate = nearest(key, known);
  if (candidate !== undefined) return `unknown setting (did you mean ${candidate}?)`;
  return `unknown setting${known.size > 0 ? ` (there are: ${[...known].join(", ")})` : ""}`;
}

function shapeName(path: SettingsPath): string {
  if (isDestination(path.slice(0, 3))) return "kind of destination";
  return path[0] === "sources" ? "kind of source" : "shape";
}

function unionFindings(issue: z.core.$ZodIssueInvalidUnion, path: SettingsPath): Finding[] {
  const discriminator = issue as { options?: readonly unknown[] };
  if (discriminator.options !== undefined) {
    const options = discriminator.options.filter((option) => typeof option === "string");
    return [
      {
        path,
        message: `must be ${options.length > 2 ? `one of ${options.join(", ")}` : options.join(" or ")}`,
      },
    ];
  }
  if (isDestination(path)) return destinationFindings(issue, path);
  const candidates = issue.errors.filter(
    (branch) => !branch.some(({ path, code }) => path.length === 0 && aboutKind.has(code)),
  );
  if (candidates.length === 1) return findingsOf(candidates[0] as z.core.$ZodIssue[], path);
  return [{ path, message: issue.message }];
}

/** A source's `to` (`mode: proxy`) is not a union: it takes a URL only. */
function isDestination(path: SettingsPath): boolean {
  return path.length === 3 && path[0] === "routes" && path[2] === "to";
}

/** Each kind of destination requires a key that no other kind has. */
function destinationFindings(
  { errors, input }: z.core.$ZodIssueInvalidUnion,
  path: SettingsPath,
): Finding[] {
  // Not a mapping: every kind reports the same fault.
  if (typeof input !== "object" || input === null || Array.isArray(input))
    return findingsOf(errors[0] ?? [], path);
  const [kind, ...others] = destinationKeys.filter((key) => Object.hasOwn(input, key));
  const choice = destinationKeys.join(", ");
  if (others.length > 0) {
    const message = `stands beside ${kind}; a destination is one of ${choice}`;
    return others.map((key) => ({ path: [...path, key], message, isAboutKey: true }));
  }
  if (kind !== undefined) return findingsOf(errors[destinationKeys.indexOf(kind)] ?? [], path);
  const known = knownKeys(path);
  const slips = Object.keys(input).filter((key) => !known.has(key));
  return [
    ...slips.map((key) => ({
      path: [...path, key],
      message: unknownKeyText(path, key),
      isAboutKey: true,
    })),
    { path, message: `must have one of ${choice}` },
  ];
}

const aboutKind: ReadonlySet<string> = new Set(["invalid_type", "invalid_union"]);

type Part = Readonly<Record<string, unknown>>;

const defaultPort = 8080;

/**
 * Faults between the parts of the settings, which are not parsed: a fault in one part must not hide
 * those between the others. Never quotes a value, because it may come from the environment.
 */
export function* checkReferences(settings: unknown): Generator<Finding> {
  const top = entries(settings);
  const accounts = Object.keys(entries(top["accounts"]));
  const sources = Object.entries(entries(top["sources"])).map(
    ([name, source]) => [name, entries(source)] as const,
  );
  const sourceNames = sources.map(([name]) => name);
  yield* checkBackup(top);
  yield* checkControlPort(entries(top["server"]));
  for (const [name, source] of sources) yield* checkAccounts(source, accounts, ["sources", name]);
  const routes = list(top["routes"]).map(entries);
  for (const [index, route] of routes.entries()) {
    const match = entries(route["match"]);
    const path = ["routes", index];
    yield* checkNames(match["sources"], sourceNames, "source", [...path, "match", "sources"]);
    yield* checkNames(match["accounts"], accounts, "account", [...path, "match", "accounts"]);
    yield* checkPassedSignature(route, sources, [...path, "to", "passSignature"]);
  }
  for (const [index, first] of repeated(routes.map(({ name }) => name))) {
    yield {
      path: ["routes", index, "name"],
      message: `is the name of routes[${first}] too; names of routes are unique`,
    };
  }
  const tokens = list(entries(top["control"])["tokens"]).map(entries);
  for (const [index, token] of tokens.entries()) {
    yield* checkNames(token["accounts"], accounts, "account", [
      "control",
      "tokens",
      index,
      "accounts",
    ]);
  }
  for (const key of ["name", "token"] as const) {
    for (const [index, first] of repeated(tokens.map((token) => token[key]))) {
      yield {
        path: ["control", "tokens", index, key],
        message: `is the ${key} of control.tokens[${first}] too`,
      };
    }
  }
}

function* checkBackup(top: Part): Generator<Finding> {
  const { schedule = "off" } = entries(top["backup"]);
  const { driver = "sqlite" } = entries(top["storage"]);
  const message =
    "needs storage.driver sqlite; back up the database server itself, as docs/how-to/back-up-and-restore.md describes";
  if (driver !== "sqlite" && schedule !== "off") yield { path: ["backup", "schedule"], message };
}

/** Both would be refused at the start, and only there. */
function* checkControlPort({ port = defaultPort, control }: Part): Generator<Finding> {
  const message = "is server.port too: the control API needs a port of its own";
  if (entries(control)["port"] === port) yield { path: ["server", "control", "port"], message };
}

/** A source may leave its account out when there is only one. */
function* checkAccounts(
  source: Part,
  accounts: readonly string[],
  path: SettingsPath,
): Generator<Finding> {
  const { account, accounts: byNumber } = source;
  for (const [number, name] of Object.entries(entries(byNumber)))
    yield* checkName(name, accounts, "account", [...path, "accounts", number]);
  if (account !== undefined) yield* checkName(account, accounts, "account", [...path, "account"]);
  else if ((!isMeta(source) || byNumber === undefined) && onlyAccount(accounts) === undefined) {
    const isEmpty = accounts.length === 0;
    const message = isEmpty
      ? ", and accounts is empty: add one, such as main: {}"
      : `: name one of ${accounts.join(", ")}`;
    yield { path: [...path, "account"], message: `is missing${message}` };
  }
}

function isMeta({ kind = "events", format }: Part): boolean {
  return kind === "events" && format === "meta";
}

/**
 * Signatures of requests with several events are of no use to a destination that gets one of them.
 */
function* checkPassedSignature(
  route: Part,
  sources: readonly (readonly [string, Part])[],
  path: SettingsPath,
): Generator<Finding> {
  const { sources: wanted } = entries(route["match"]);
  const matched = sources.find(
    ([name, source]) => isMeta(source) && (wanted === undefined || list(wanted).includes(name)),
  );
  if (matched === undefined || entries(route["to"])["passSignature"] !== true) return;
  yield {
    path,
    message: `could not verify events of the source "${matched[0]}", whose requests have several: use to.signature, or match.sources`,
  };
}

function* checkNames(
  names: unknown,
  known: readonly string[],
  what: string,
  path: SettingsPath,
): Generator<Finding> {
  for (const [index, name] of list(names).entries())
    yield* checkName(name, known, what, [...path, index]);
}

function* checkName(
  name: unknown,
  known: readonly string[],
  what: string,
  path: SettingsPath,
): Generator<Finding> {
  if (typeof name !== "string" || known.includes(name)) return;
  yield {
    path,
    message: `names no ${what} of this file (${suggestion(name, known, `${what}s is empty`)})`,
  };
}

function entries(value: unknown): Part {
  return isObject(value) ? value : {};
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
