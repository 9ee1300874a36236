import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseSettings } from "../../../src/config/load.ts";
import {
  compilePattern,
  longestPattern,
  matchedLength,
  mostInstructions,
  PatternRefused,
} from "../../../src/route/pattern.ts";
import { compileWhere, conditionLimits, whereSchema } from "../../../src/route/where.ts";

const matches = (pattern: string, value: unknown) => compilePattern(pattern).test(value);
const faults = (where: unknown) =>
  (whereSchema.safeParse(where).error?.issues ?? []).map(
    ({ path, message }) => `${path.join(".")} ${message}`,
  );

describe("a hostile text takes linear time", () => {
  // With a backtracking engine most of these do not end within a human life.
  test.each([
    ["^wamid\\.(\\w+)+!$", `wamid.${"a".repeat(matchedLength)}`],
    ["^(\\w|\\d)+$", `${"1".repeat(matchedLength - 2)}!`],
    ["^([a-z]|\\w)*x$", "a".repeat(matchedLength)],
    ["(\\d+)-?(\\d+)-?(\\d+)x", "1".repeat(matchedLength)],
    ["(pedido|orden).*(pago|abono).*(listo|ok).*fin", "pedido pago ok ".repeat(300)],
    ["(a+)+$", `${"a".repeat(matchedLength - 2)}b`],
    ["(x*)*y", "x".repeat(matchedLength)],
  ])("%s", (pattern, text) => {
    expect(matches(pattern, text)).toBe(false);
    expect(
      compileWhere(
        { v: { $regex: pattern } },
        "where",
      )({ v: Array.from({ length: 1000 }, () => text) }),
    ).toBe("where: v $regex");
  });
});

describe("what the engine cannot run, or only at a cost, is refused with the reason", () => {
  test.each([
    ["(", /^is not a regular expression: Unterminated group$/],
    ["\\y", /^is not a regular expression/],
    ["a(?=b)", /^is not supported: look-around/],
    ["(?<!a)b", /^is not supported: look-around/],
    ["(a)\\1", /^is not supported: a back-reference/],
    ["(?<n>a)\\k<n>", /^is not supported: a back-reference/],
    ["[\\b]", /^is not supported: invalid escape sequence/],
    ["\\p{Script=Greek}", /^is not supported: invalid character class range/],
    ["(a{1000}){1000}", /^is too large: .* 500 instructions$/],
    ["a{1001}", /^is too large/],
    ["a{99999999999999999999}", /^is too large/],
    ["a{1000}".repeat(100), /^is too large/],
    ["((a{0,10}){0,10}){0,10}", /^is too large/],
    ["a?".repeat(499), /^is too large/],
    ["a".repeat(longestPattern + 1), /^is longer than 1000 characters$/],
  ])("%s", (pattern, reason) => {
    expect(() => compilePattern(pattern)).toThrow(reason);
  });

  test("what only looks like it is not", () => {
    for (const pattern of [
      "\\\\1",
      "a\\\\(?:b)",
      "[(?=!<]",
      "\\(?=",
      "\\(\\?=",
      "\\d{3}-\\d{3}-\\d{4}",
      "[{1000}]{2}",
    ])
      compilePattern(pattern);
    expect(compilePattern("a{400}").size).toBeLessThanOrEqual(mostInstructions);
  });

  test("`config check` names the line", () => {
    const settings = (pattern: string) =>
      `routes:\n  - name: r\n    match:\n      where:\n        text: { $regex: '${pattern}' }\n    to: { url: "http://127.0.0.1:9/", allowPrivate: true }\n`;
    expect(() => parseSettings(settings("^a(?=b)"), "relay.yaml", {})).toThrow(
      /^relay\.yaml:5:\d+ routes\[0\]\.match\.where\.text\.\$regex: is not supported: look-around/m,
    );
    expect(() => parseSettings(settings("(a{1000}){1000}"), "relay.yaml", {})).toThrow(
      /^relay\.yaml:5:\d+ .*is too large/m,
    );
    parseSettings(settings("(a+)+$"), "relay.yaml", {});
  });
});

describe("a condition is bounded as a whole", () => {
  test("in its patterns", () => {
    const some = (count: number, pattern: string) => ({
      $or: Array.from({ length: count }, () => ({ a: { $regex: pattern } })),
    });
    expect(faults(some(conditionLimits.patterns, "a"))).toEqual([]);
    expect(faults(some(conditionLimits.patterns + 1, "a"))).toEqual([
      "$or.10.a.$regex is one pattern too many: a condition has at most 10",
    ]);
    expect(faults(some(3, "a{400}"))).toEqual([
      "$or.2.a.$regex makes the patterns too large together: at most 1000 instructions",
    ]);
  });

  test("in its depth", () => {
    const nested = (depth: number): unknown =>
      depth === 0 ? { a: 1 } : { $not: nested(depth - 1) };
    expect(faults(nested(conditionLimits.levels))).toEqual([]);
    expect(faults(nested(conditionLimits.levels + 1))).toEqual([
      expect.stringContaining("is nested more than 16 levels deep"),
    ]);
    // From the wire it may be any depth.
    const text = `${'{"$not":'.repeat(100_000)}{}${"}".repeat(100_000)}`;
    expect(faults(JSON.parse(text))).toEqual([
      expect.stringContaining("is nested more than 16 levels deep"),
    ]);
  });

  test("in its paths", () => {
    const paths = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, n) => [`p${n}`, 1]));
    expect(faults(paths(conditionLimits.paths))).toEqual([]);
    expect(faults({ $not: paths(conditionLimits.paths), a: 1 })).toEqual([
      "a is one path too many: a condition has at most 200",
    ]);
  });
});

describe("no more than 4,096 characters are looked at", () => {
  const long = "x".repeat(matchedLength);

  test("of one text", () => {
    expect(matches("y", `${long.slice(1)}y`)).toBe(true);
    expect(matches("y", `${long}y`)).toBe(false);
  });

  test("of the texts of a list together", () => {
    expect(matches("y", [1, null, "a", "y"])).toBe(true);
    expect(matches("y", [long.slice(1), "y"])).toBe(true);
    expect(matches("y", [long, "y"])).toBe(false);
    expect(matches("y", [...Array.from({ length: matchedLength }, () => ""), "y"])).toBe(false);
    expect(matches("y", [["y"], { y: "y" }])).toBe(false);
  });
});

/** Patterns of the supported subset that mean the same to both engines, as text. */
const { pattern } = fc.letrec<{ pattern: string; atom: string }>((tie) => ({
  atom: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.constantFrom(
      "a",
      "b",
      "0",
      "-",
      "é",
      "😀",
      "\\d",
      "\\D",
      "\\w",
      "\\W",
      "\\.",
      "\\n",
      "\\t",
      "\\u0061",
      "\\u{1F600}",
      "\\x62",
      "\\cJ",
    ),
    fc.constantFrom(
      "[ab]",
      "[^a]",
      "[a-c\\d]",
      "[^\\w]",
      "[\\-a]",
      "[^\\]]",
      "[\\u00e9x]",
      "\\p{Lu}",
      "\\P{L}",
      "\\p{N}",
      "[^]",
    ),
    fc.constantFrom("^", "$", "\\b"),
    tie("pattern").map((inner) => `(${inner})`),
    tie("pattern").map((inner) => `(?:${inner})`),
  ),
  pattern: fc
    .array(
      fc.array(
        fc
          .tuple(
            tie("atom"),
            fc.constantFrom("", "", "", "?", "*", "+", "{2}", "{1,3}", "{0,2}", "*?", "+?"),
          )
          .map(([atom, times]) =>
            // An assertion is not repeated: JavaScript refuses it.
            ["^", "$", "\\b"].includes(atom) ? atom : `${atom}${times}`,
          ),
        { maxLength: 3 },
      ),
      { minLength: 1, maxLength: 2 },
    )
    .map((alternatives) => alternatives.map((parts) => parts.join("")).join("|")),
}));

const texts = fc.string({
  unit: fc.constantFrom("a", "b", "0", "1", "-", ".", "é", "É", "😀", "\n", "\t", " ", "]", "x"),
  maxLength: 8,
});

/** Repeats inside repeats may come out too large. */
function compileSmall(source: string) {
  try {
    return compilePattern(source);
  } catch (error) {
    fc.pre(!(error instanceof PatternRefused && error.message.startsWith("is too large")));
    throw error;
  }
}

test("agrees with JavaScript's engine on the supported subset", () => {
  fc.assert(
    fc.property(pattern, fc.array(texts, { minLength: 1, maxLength: 5 }), (source, samples) => {
      const javascript = new RegExp(source, "u");
      const compiled = compileSmall(source);
      for (const text of samples)
        expect([source, text, compiled.test(text)]).toEqual([source, text, javascript.test(text)]);
    }),
    { numRuns: 600 },
  );
});

test("differs from JavaScript's engine only as docs/concepts/routing.md lists", () => {
  for (const end of ["\r", "\u2028", "\u2029"])
    expect([matches(".", end), /./u.test(end)]).toEqual([true, false]);
  for (const blank of ["\v", "\u00a0", "\ufeff", "\u2003"])
    expect([matches("\\s", blank), /\s/u.test(blank)]).toEqual([false, true]);
  expect([matches("\\B", "a😀a"), /\B/u.test("a😀a")]).toEqual([false, true]);
  for (const blank of [" ", "\t", "\n", "\r", "\f"])
    expect([matches("\\s", blank), matches("\\S", blank)]).toEqual([true, false]);
});

test("decides on every text", () => {
  fc.assert(
    fc.property(
      pattern,
      fc.oneof(fc.string({ unit: "binary" }), fc.jsonValue()),
      (source, value) => {
        compileSmall(source).test(value);
      },
    ),
  );
});
