import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compileGlobs } from "../../../src/model/statuses.ts";

test.each([
  ["*", "", true],
  ["*", "anything.at all\n", true],
  ["message.status", "message.status", true],
  ["message.status", "message.status2", false],
  ["message.*", "message.status", true],
  ["message.*", "message.", true],
  ["message.*", "message.status.changed", true],
  ["message.*", "messages.status", false],
  ["message.*", "Message.status", false],
  ["message.*", "a message.status", false],
  ["*.failed", "automation.failed", true],
  ["*.failed", "automation.failed.late", false],
  ["a*a", "a", false],
  ["a*a", "aa", true],
  ["ab*ba", "aba", false],
  ["a*b*c", "a-b-c", true],
  ["a*b*c", "acb", false],
  ["a*b*b", "ab", false],
  ["a**b", "ab", true],
  ["**", "", true],
  ["", "", true],
  ["*é*", "caf\u00e9!", true],
])("%j on %j: %s", (pattern, text, matches) => {
  expect(compileGlobs([pattern])(text)).toBe(matches);
});

describe("every character but * is itself", () => {
  test.each([".", "?", "+", "(", ")", "[a]", "{2}", "^", "$", "|", "\\", "\\d", "/"])(
    "%s",
    (literal) => {
      const glob = compileGlobs([`x${literal}*`]);
      expect(glob(`x${literal}yz`)).toBe(true);
      expect(glob("xayz")).toBe(false);
      expect(compileGlobs([literal])(literal)).toBe(true);
    },
  );
});

test("matches any of several patterns", () => {
  const globs = compileGlobs(["message.status", "automation.*", "*-test"]);
  expect(["message.status", "automation.failed", "x-test", "message.other"].map(globs)).toEqual([
    true,
    true,
    true,
    false,
  ]);
});

test("agrees with a regular expression that has .* for *", () => {
  const piece = fc.string({ unit: fc.constantFrom("a", "b", "."), maxLength: 3 });
  const pattern = fc.array(piece, { minLength: 1, maxLength: 5 }).map((pieces) => pieces.join("*"));
  fc.assert(
    fc.property(
      pattern,
      fc.string({ unit: fc.constantFrom("a", "b", "."), maxLength: 12 }),
      (glob, text) => {
        const naive = new RegExp(`^${glob.replaceAll(".", "\\.").replaceAll("*", "[^]*")}$`);
        expect(compileGlobs([glob])(text)).toBe(naive.test(text));
      },
    ),
    { numRuns: 600 },
  );
});

// A backtracking engine would not end.
test("matches a pattern that would stall a backtracking engine", () => {
  const glob = compileGlobs([`${"a*".repeat(60)}b`]);
  expect(glob("a".repeat(10_000))).toBe(false);
  expect(glob(`${"a".repeat(10_000)}b`)).toBe(true);
});
