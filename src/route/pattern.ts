import { RE2JS } from "re2js";

/** Longest text of a pattern, in UTF-16 units. */
export const longestPattern = 1000;

/**
 * Most instructions of one compiled pattern: the time of a match is at most this times the length
 * of the text.
 */
export const mostInstructions = 500;

/**
 * UTF-16 units of a text that a pattern is matched against. In a list, texts are matched until
 * their lengths add up to this. Bounds the time that one event can take.
 */
export const matchedLength = 4096;

/** Not a regular expression, or not one that this engine supports. */
export class PatternRefused extends Error {
  override readonly name = "PatternRefused";
}

interface Pattern {
  /** True when the text, or any text of a list, contains a match. */
  test(value: unknown): boolean;
  readonly size: number;
}

/**
 * JavaScript's syntax with the flag `u`, on RE2, in time linear in the text: JavaScript's own
 * engine backtracks, and a hostile text can stop the whole process. The match cache takes about 8
 * MiB at most. Throws `PatternRefused`.
 */
export function compilePattern(text: string): Pattern {
  if (text.length > longestPattern)
    throw new PatternRefused(`is longer than ${longestPattern} characters`);
  try {
    // Only parsed: V8 compiles a pattern when it first runs.
    new RegExp(text, "u");
  } catch (error) {
    throw new PatternRefused(`is not a regular expression: ${unquoted(error)}`);
  }
  const unsupported = whyUnsupported(text);
  if (unsupported !== null) throw new PatternRefused(`is not supported: ${unsupported}`);
  // Before compiling, which takes time and memory in proportion: a listener may send any pattern.
  if (writtenOut(text) > 2 * mostInstructions) throw tooLarge();
  let compiled: RE2JS;
  try {
    compiled = RE2JS.compile(RE2JS.translateRegExp(text));
  } catch (error) {
    throw new PatternRefused(`is not supported: ${unquoted(error)}`);
  }
  const size = compiled.programSize();
  if (size > mostInstructions) throw tooLarge();
  return {
    size,
    test: (value) => {
      if (typeof value === "string") return compiled.test(value.slice(0, matchedLength));
      return Array.isArray(value) && testEach(compiled, value);
    },
  };
}

/**
 * Without the pattern, which may come from a variable: between colons, or at the end in backquotes.
 */
const unquoted = (error: unknown): string =>
  (error as Error).message.replace(/: `.*/s, "").replace(/^.*: /s, "");

function testEach(compiled: RE2JS, values: readonly unknown[]): boolean {
  let left = matchedLength;
  for (const value of values) {
    if (left <= 0) return false;
    if (typeof value !== "string") continue;
    if (compiled.test(value.slice(0, matchedLength))) return true;
    // An empty text has a cost too.
    left -= Math.max(1, value.length);
  }
  return false;
}

const tooLarge = (): PatternRefused =>
  new PatternRefused(
    `is too large: with its repetitions written out it has more than ${mostInstructions} instructions`,
  );

const tokens = /\\[pP]\{[^}]*\}|\\u\{[^}]*\}|\\.|\[(?:\\.|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|./gsu;

/**
 * Estimates the instructions of a pattern that JavaScript parses: an upper bound within a factor of
 * two.
 */
function writtenOut(pattern: string): number {
  const outer: number[] = [];
  let sum = 0;
  let last = 0;
  for (const [token, least, most] of pattern.matchAll(tokens)) {
    if (least !== undefined) {
      const times = Math.max(1, Number(most === undefined || most === "" ? least : most));
      sum += last * (times - 1);
      last *= times;
    } else if (token === "(") {
      outer.push(sum);
      sum = 0;
    } else if (token === ")") {
      last = sum + 1;
      sum = (outer.pop() ?? 0) + last;
    } else {
      last = 1;
      sum += 1;
    }
  }
  return sum;
}

/** `translateRegExp` would read a back-reference as literal characters. */
function whyUnsupported(pattern: string): string | null {
  for (const { 0: token, index } of pattern.matchAll(tokens)) {
    if (/^\\[1-9k]/.test(token))
      return "a back-reference, such as \\1, needs an engine that can stop the process";
    if (token === "(" && /^\?<?[=!]/.test(pattern.slice(index + 1, index + 4)))
      return "look-around, (?=…) (?!…) (?<=…) (?<!…), needs an engine that can stop the process";
  }
  return null;
}
