import { type Alias, type Document, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, type Pair, parseDocument } from "yaml";
import type { SettingsPath } from "./fault.ts";
import { type Environment, substitute } from "./substitute.ts";
import { yamlErrorText } from "./yaml-errors.ts";

/** Where a value of the settings is, and where it came from. */
export interface Place {
  /** Offset into the file: of the value when it is a scalar, else of its key. */
  readonly offset: number;
  readonly keyOffset: number;
  /** Parts filled in from the environment; empty for a value that is all in the file. */
  readonly origins: readonly string[];
  readonly hidden: readonly string[];
  /** What a value that was one variable and nothing else may become: see `coerce.ts`. */
  readonly variable: "none" | "plain" | "quoted";
}

/** Something wrong at a path. `offset` is given where the place of the path would be the wrong one. */
export interface Finding {
  readonly path: SettingsPath;
  readonly message: string;
  readonly offset?: number;
  /** True when it is the key that is wrong, and not what stands under it. */
  readonly isAboutKey?: boolean;
  /** True when the message comes from a schema, which may have quoted the value in it. */
  readonly mayQuote?: boolean;
}

/** A settings file as plain values, with the place of each. */
export interface Tree {
  readonly value: unknown;
  /** By {@link placeKey}. */
  readonly places: ReadonlyMap<string, Place>;
  readonly findings: readonly Finding[];
  readonly lines: LineCounter;
  /** False when the YAML itself is broken, or refused: the value is then of no use. */
  readonly readable: boolean;
}

/** The key of a path in `places`. */
export function placeKey(path: SettingsPath): string {
  return JSON.stringify(path);
}

/** Deepest nesting taken; the settings need some ten, and `where` conditions a few more. */
const deepest = 64;
/** Most values that aliases may stand for: few lines of aliases of aliases could stand for billions. */
const mostAliased = 10_000;

/** Reads YAML and fills in `${…}` inside values (never in keys, nor comments). Never throws. */
export function readTree(text: string, env: Environment): Tree {
  const lines = new LineCounter();
  const findings: Finding[] = [];
  const broken = (message: string): Tree => ({ value: null, places: new Map(), findings: [{ path: [], message }], lines, readable: false });
  let document: Document.Parsed;
  try {
    // Pretty errors would quote lines of the file, and so could quote a secret.
    const options = { lineCounter: lines, prettyErrors: false, stringKeys: true, uniqueKeys: false, resolveKnownTags: false } as const;
    document = parseDocument(text, options);
  } catch (error) {
    return broken(error instanceof RangeError ? "is nested too deep" : "is not valid YAML");
  }
  // One slip makes the parser complain many times; what follows the first only confuses.
  const [error] = [...document.errors, ...document.warnings];
  if (error !== undefined) {
    const [offset] = error.pos;
    const begin = text.lastIndexOf("\n", offset - 1) + 1;
    const end = text.indexOf("\n", offset);
    const message = yamlErrorText(error, text.slice(begin, end === -1 ? undefined : end));
    return { value: null, places: new Map(), findings: [{ path: [], message, offset }], lines, readable: false };
  }
  const reader = createReader(env, findings, lines);
  const value = reader.read(document.contents, [], undefined);
  return { value, places: reader.places, findings, lines, readable: !reader.refused() };
}

function createReader(env: Environment, findings: Finding[], lines: LineCounter) {
  const places = new Map<string, Place>();
  const anchors = new Map<string, Node>();
  // An alias means the anchor that stood before it, whatever its name means later on.
  const targets = new Map<Alias, Node | undefined>();
  // Nodes with an anchor that are being read: an alias of one of them would never end.
  const open: unknown[] = [];
  let expanding = 0;
  let aliased = 0;
  let refused = false;

  function read(node: unknown, path: SettingsPath, key: Node | undefined): unknown {
    const offset = (isScalar(node) ? node.range?.[0] : undefined) ?? key?.range?.[0] ?? (node as Node | null)?.range?.[0] ?? 0;
    const find = (message: string, at = offset) => void findings.push({ path, message, offset: at });
    places.set(placeKey(path), { offset, keyOffset: key?.range?.[0] ?? offset, origins: [], hidden: [], variable: "none" });
    if (refused) return undefined;
    if (path.length > deepest || (expanding > 0 && ++aliased > mostAliased)) {
      refused = true;
      return void find(
        path.length > deepest ? `is nested deeper than ${deepest} levels` : `aliases stand for more than ${mostAliased} values`,
      );
    }
    if (isAlias(node)) {
      if (!targets.has(node)) targets.set(node, anchors.get(node.source));
      const target = targets.get(node);
      if (target === undefined) return void find("is an alias of an anchor that does not stand before it");
      if (open.includes(target)) return void find("is an alias that contains itself");
      expanding++;
      const value = read(target, path, key);
      expanding--;
      return value;
    }
    const anchor = (node as { anchor?: string } | null)?.anchor;
    if (anchor === undefined) return readContent(node, path, offset);
    if (expanding === 0) anchors.set(anchor, node as Node);
    open.push(node);
    const value = readContent(node, path, offset);
    open.pop();
    return value;
  }

  function readContent(node: unknown, path: SettingsPath, offset: number): unknown {
    if (isMap(node)) return readMapping(node.items as Pair<Node, Node>[], path);
    if (isSeq(node)) return node.items.map((item, index) => read(item, [...path, index], undefined));
    if (isScalar(node)) return typeof node.value === "string" ? readText(node.value, node.type !== "PLAIN", path, offset) : node.value;
    return null;
  }

  function readMapping(pairs: readonly Pair<Node, Node>[], path: SettingsPath): Record<string, unknown> {
    const mapping: Record<string, unknown> = {};
    for (const { key, value } of pairs) {
      const name = String(isScalar(key) ? key.value : "");
      const at = [...path, name];
      const offset = key.range?.[0] ?? 0;
      if (name === "__proto__") findings.push({ path: at, message: "is not a key", offset });
      else if (name === "<<") findings.push({ path: at, message: "merge keys (<<) are not taken; an alias of a whole value is", offset });
      else if (Object.hasOwn(mapping, name)) findings.push({ path: at, message: `is given twice, first ${firstLine(at)}`, offset });
      else mapping[name] = read(value, at, key);
    }
    return mapping;
  }

  function firstLine(path: SettingsPath): string {
    return `on line ${lines.linePos(places.get(placeKey(path))?.offset ?? 0).line}`;
  }

  function readText(text: string, quoted: boolean, path: SettingsPath, offset: number): string {
    const filled = substitute(text, env);
    for (const message of filled.problems) findings.push({ path, message, offset });
    const variable = filled.whole && filled.problems.length === 0 ? (quoted ? "quoted" : "plain") : "none";
    const keyOffset = places.get(placeKey(path))?.keyOffset ?? offset;
    const hidden = filled.hidden.filter((part) => part !== "");
    places.set(placeKey(path), { offset, keyOffset, origins: filled.origins, hidden, variable });
    return filled.text;
  }

  return { read, places, refused: () => refused };
}
