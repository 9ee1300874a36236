import { resolve } from "node:path";
import {
  type Alias,
  Composer,
  type CST,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Node,
  type Pair,
  Parser,
  YAMLParseError,
} from "yaml";
import type { Steps } from "../model/steps.ts";
import { type Environment, readTextFile } from "./env-file.ts";
import type { SettingsPath } from "./fault.ts";
import { yamlFault } from "./yaml-fault.ts";

export interface Place extends Pick<Substituted, "origins"> {
  /** Offset into the file: of the value when it is a scalar, else of its key. */
  readonly offset: number;
  readonly keyOffset: number;
  /** Whether the value is exactly one variable, and quoted (`coerceVariables` in load.ts). */
  readonly variable: "none" | "plain" | "quoted";
}

/** A fault at a path. `offset` is set where the path's own place would be wrong. */
export interface Finding {
  readonly path: SettingsPath;
  readonly message: string;
  readonly offset?: number | undefined;
  /** True when the key is wrong, not its value. */
  readonly isAboutKey?: boolean;
  /** True when the value is in a variable that is not set, or in a file that cannot be read. */
  readonly isMissing?: boolean;
}

export interface Tree {
  readonly value: unknown;
  readonly places: ReadonlyMap<string, Place>;
  readonly findings: readonly Finding[];
  readonly lines: LineCounter;
  readonly readable: boolean;
}

export const placeKey = (path: SettingsPath): string => JSON.stringify(path);

export const fileStart: Place = { offset: 0, keyOffset: 0, origins: [], variable: "none" };

/** Deepest nesting; the settings need about ten levels, and `where` conditions a few more. */
const deepest = 64;
/**
 * Most values that aliases may expand to: a few lines of nested aliases could expand to billions.
 */
const mostAliased = 10_000;

/**
 * Reads YAML and fills in `${…}` inside values. `folder`: of relative paths in `${file:…}`. Never
 * throws.
 */
export function* readTree(text: string, env: Environment, folder: string): Steps<Tree> {
  const lines = new LineCounter();
  const unreadable = (message: string, offset?: number): Tree => {
    return {
      value: null,
      places: new Map(),
      findings: [{ path: [], message, offset }],
      lines,
      readable: false,
    };
  };
  let documents: Document.Parsed[];
  try {
    documents = yield* parseYaml(text, lines);
  } catch (error) {
    return unreadable(error instanceof RangeError ? "is nested too deep" : "is not valid YAML");
  }
  const [document, second] = documents as [Document.Parsed, Document.Parsed?];
  const tooMany =
    second === undefined
      ? []
      : [new YAMLParseError([second.range[0], second.range[1]], "MULTIPLE_DOCS", "")];
  // One mistake makes the parser report many errors; those after the first only confuse.
  const [error] = [...document.errors, ...tooMany, ...document.warnings];
  if (error !== undefined) {
    const { message, offset } = yamlFault(error, text);
    return unreadable(message, offset);
  }
  yield;
  const findings: Finding[] = [];
  const reader = createReader((value) => substitute(value, env, folder), findings, lines);
  const value = reader.read(document.contents, [], undefined);
  return { value, places: reader.places, findings, lines, readable: !reader.refused() };
}

/**
 * `parseDocument` of the library does this in one step, which with hundreds of routes is the
 * longest of a reload.
 */
function* parseYaml(text: string, lines: LineCounter): Steps<Document.Parsed[]> {
  // The parser calls it for each later line.
  lines.addNewLine(0);
  const parser = new Parser(lines.addNewLine);
  const composer = new Composer({ stringKeys: true, uniqueKeys: false, resolveKnownTags: false });
  const documents: Document.Parsed[] = [];
  const compose = (tokens: Iterable<CST.Token>): void => {
    for (const token of tokens) documents.push(...composer.next(token));
  };
  for (const lexeme of new Lexer().lex(text)) {
    compose(parser.next(lexeme));
    yield;
  }
  compose(parser.end());
  documents.push(...composer.end(true, text.length));
  return documents;
}

function createReader(
  fillIn: (text: string) => Substituted,
  findings: Finding[],
  lines: LineCounter,
) {
  const places = new Map<string, Place>();
  const anchors = new Map<string, Node>();
  // An alias refers to the anchor before it, even if a later anchor reuses the name.
  const targets = new Map<Alias, Node | undefined>();
  let expanding = 0;
  let aliased = 0;
  let refused = false;

  function read(node: unknown, path: SettingsPath, key: Node | undefined): unknown {
    const offset =
      (isScalar(node) ? node.range?.[0] : undefined) ??
      key?.range?.[0] ??
      (node as Node | null)?.range?.[0] ??
      0;
    const find = (message: string, at = offset) =>
      void findings.push({ path, message, offset: at });
    places.set(placeKey(path), { ...fileStart, offset, keyOffset: key?.range?.[0] ?? offset });
    if (refused) return undefined;
    const isDeep = path.length > deepest;
    if (isDeep || (expanding > 0 && ++aliased > mostAliased)) {
      refused = true;
      return void find(
        isDeep
          ? `is nested deeper than ${deepest} levels`
          : `aliases stand for more than ${mostAliased} values`,
      );
    }
    if (isAlias(node)) {
      if (!targets.has(node)) targets.set(node, anchors.get(node.source));
      const target = targets.get(node);
      if (target === undefined)
        return void find("is an alias of an anchor that does not stand before it");
      expanding++;
      const value = read(target, path, key);
      expanding--;
      return value;
    }
    const anchor = (node as { anchor?: string } | null)?.anchor;
    if (anchor !== undefined && expanding === 0) anchors.set(anchor, node as Node);
    if (isMap(node)) return readMapping(node.items as Pair<Node, Node>[], path);
    if (isSeq(node))
      return node.items.map((item, index) => read(item, [...path, index], undefined));
    if (isScalar(node))
      return typeof node.value === "string"
        ? readText(node.value, node.type !== "PLAIN", path, offset)
        : node.value;
    return null;
  }

  function readMapping(
    pairs: readonly Pair<Node, Node>[],
    path: SettingsPath,
  ): Record<string, unknown> {
    const mapping: Record<string, unknown> = {};
    for (const { key, value } of pairs) {
      const name = String(isScalar(key) ? key.value : "");
      const at = [...path, name];
      const offset = key.range?.[0] ?? 0;
      if (name === "__proto__") findings.push({ path: at, message: "is not a key", offset });
      else if (name === "<<")
        findings.push({
          path: at,
          message: "merge keys (<<) are not taken; an alias of a whole value is",
          offset,
        });
      else if (Object.hasOwn(mapping, name)) {
        const { line } = lines.linePos(places.get(placeKey(at))?.offset ?? 0);
        findings.push({ path: at, message: `is given twice, first on line ${line}`, offset });
      } else mapping[name] = read(value, at, key);
    }
    return mapping;
  }

  function readText(text: string, quoted: boolean, path: SettingsPath, offset: number): string {
    const { text: filled, origins, whole, problems } = fillIn(text);
    for (const problem of problems) findings.push({ path, offset, ...problem });
    const variable = whole && problems.length === 0 ? (quoted ? "quoted" : "plain") : "none";
    places.set(placeKey(path), { ...(places.get(placeKey(path)) ?? fileStart), origins, variable });
    return filled;
  }

  return { read, places, refused: () => refused };
}

interface Substituted {
  readonly text: string;
  /**
   * Where the parts came from, such as `${CRM_URL}`, `the default of ${PORT}` or
   * `${file:crm-secret}`.
   */
  readonly origins: readonly string[];
  readonly whole: boolean;
  /** Faults of the variables, quoting names only. */
  readonly problems: readonly Pick<Finding, "message" | "isMissing">[];
}

const variable =
  /\$\$\{|\$\{file:(?!-)((?:[^}$]|\$\{[A-Za-z_][A-Za-z0-9_]*\})+)\}|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:[^}$]|\$(?!\{))*))?\}|\$\{/g;
/** Far larger than any secret; a wrong path must not read a log of gigabytes. */
const largestSecretFile = 64 * 1024;

/**
 * Fills in `${NAME}`, `${NAME:-default}` (also for an empty variable, as in a shell) and
 * `${file:path}`. `$${` gives `${`. Filled-in text is not substituted again. Never throws.
 */
export function substitute(text: string, env: Environment, folder = "."): Substituted {
  if (!text.includes("${")) return { text, origins: [], whole: false, problems: [] };
  const origins: string[] = [];
  const problems: Substituted["problems"][number][] = [];
  let whole = false;
  const filled = text.replace(
    variable,
    (found, path: string | undefined, name: string | undefined, fallback: string | undefined) => {
      if (found === "$${") return "${";
      if (path === undefined && name === undefined) {
        const message = `has \${ that begins no variable: write \${NAME}, \${NAME:-default} or \${file:path}, and $\${ for \${ itself`;
        problems.push({ message });
        return found;
      }
      whole = found === text;
      const value =
        path === undefined
          ? variableText(name as string, fallback, env)
          : readSecretFile(path, env, folder);
      if ("problem" in value) {
        problems.push({ message: value.problem, isMissing: true });
        return found;
      }
      origins.push(value.origin ?? found);
      return value.text;
    },
  );
  return { text: filled, origins, whole, problems };
}

type Filled = { readonly text: string; readonly origin?: string } | { readonly problem: string };

function variableText(name: string, fallback: string | undefined, env: Environment): Filled {
  const given = Object.hasOwn(env, name) ? env[name] : undefined;
  if (fallback !== undefined && (given === undefined || given === ""))
    return { text: fallback, origin: `the default of \${${name}}` };
  return given === undefined
    ? { problem: `needs the environment variable ${name}, which is not set` }
    : { text: given, origin: `\${${name}}` };
}

const fileFaults: Readonly<Record<string, string>> = {
  ENOTFILE: "is not a regular file",
  EISDIR: "is not a regular file",
  EFBIG: "is larger than 64 KiB",
  ENOENT: "does not exist",
  ERR_ENCODING_INVALID_ENCODED_DATA: "is not UTF-8 text",
  EACCES: "this user may not read",
  EPERM: "this user may not read",
};

function readSecretFile(shown: string, env: Environment, folder: string): Filled {
  const { text: path, problems } = substitute(shown, env);
  if (problems.length > 0) return { problem: problems.map(({ message }) => message).join("; ") };
  const problem = (what: string) => ({ problem: `needs the file ${shown}, which ${what}` });
  let text: string;
  try {
    text = readTextFile(resolve(folder, path), largestSecretFile).replace(/\r?\n$/, "");
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    return problem(fileFaults[code] ?? `cannot be read (${code || "unknown error"})`);
  }
  return text === "" ? problem("is empty") : { text };
}

/**
 * A variable's text as YAML reads it (core schema): a decimal number, true/false, or else the text
 * itself.
 */
export function scalarOf(text: string): string | number | boolean {
  if (/^(?:true|True|TRUE)$/.test(text)) return true;
  if (/^(?:false|False|FALSE)$/.test(text)) return false;
  const number = /^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$/.test(text)
    ? Number(text)
    : Number.NaN;
  return Number.isFinite(number) ? number : text;
}
