import { describe, expect, test } from "vitest";
import { parseSettings } from "../../../src/config/load.ts";
import { scalarOf, substitute } from "../../../src/config/tree.ts";
import { faultsOf } from "./faults-of.ts";

const load = (text: string, env: Record<string, string> = {}) =>
  parseSettings(text, "relay.yaml", env);

describe("substitution", () => {
  test.each([
    ["${A}", "1"],
    ["x${A}y${A}z", "x1y1z"],
    ["${NONE:-d}", "d"],
    ["${EMPTY:-d}", "d"],
    ["${EMPTY}", ""],
    ["${NONE:-}", ""],
    ["${A:-d}", "1"],
    ["${NONE:-https://a.example/?b=$c}", "https://a.example/?b=$c"],
    ["$${A}", "${A}"],
    ["$$${A}", "$${A}"],
    ["$A {A} $", "$A {A} $"],
    ["${NESTED}", "${A}"],
  ])("%s gives %s", (text, wanted) => {
    const filled = substitute(text, { A: "1", EMPTY: "", NESTED: "${A}" });
    expect(filled.problems).toEqual([]);
    expect(filled.text).toBe(wanted);
  });

  test.each(["${", "${}", "${1A}", "${A-b}", "${A:-${B}}", "a ${ b"])(
    "%s begins no variable",
    (text) => {
      expect(substitute(text, { A: "1", B: "2" }).problems[0]?.message).toMatch(
        /^has \$\{ that begins no variable/,
      );
    },
  );

  test("inherited properties are not variables", () => {
    expect(substitute("${constructor}", {}).problems).toEqual([
      { message: "needs the environment variable constructor, which is not set", isMissing: true },
    ]);
  });

  test("numbers and booleans of YAML's core schema, and nothing else", () => {
    expect(["8080", "-1.5", "1e3", "true", "FALSE"].map(scalarOf)).toEqual([
      8080,
      -1.5,
      1000,
      true,
      false,
    ]);
    for (const text of ["0x10", "", " 1", "yes", "1_000", "Infinity", "1e999", "NaN", "null"])
      expect(scalarOf(text)).toBe(text);
  });
});

describe("in a file", () => {
  test("only values are filled in: not keys, not comments, and never as structure", () => {
    const settings = load("# ${UNSET}\nstorage: # ${UNSET}\n  path: ${P}\n", {
      P: "a: {b: [c]} # d",
    });
    expect(settings.storage).toEqual({ driver: "sqlite", path: "a: {b: [c]} # d" });
    expect(faultsOf("${LOG}: {}", { LOG: "log" })).toEqual([
      expect.stringContaining("relay.yaml:1:1 […]: unknown setting"),
    ]);
  });

  test("a variable alone becomes the number or boolean that the setting is, quoted or not", () => {
    const route =
      'routes: [{ name: r, to: { url: "https://a.example", allowPrivate: "${P}", retry: { jitter: "${J}" } } }]';
    expect(load("server:\n  port: ${PORT}", { PORT: "81" }).server.port).toBe(81);
    expect(load("server:\n  port: ${PORT:-82}").server.port).toBe(82);
    expect(load('server: { port: "${PORT}" }', { PORT: "83" }).server.port).toBe(83);
    expect(load(route, { P: "true", J: "0.5" }).routes[0]?.to).toMatchObject({
      allowPrivate: true,
      retry: { jitter: 0.5 },
    });
  });

  test("a number written as text, or put together from parts, stays text", () => {
    expect(faultsOf('server: { port: "81" }')).toEqual([
      "relay.yaml:1:17 server.port: must be a number, not text",
    ]);
    expect(faultsOf("server:\n  port: 8${X}", { X: "1" })).toEqual([
      "relay.yaml:2:9 server.port: must be a number, not text (from ${X})",
    ]);
    expect(faultsOf("server:\n  port: ${X}", { X: "81a" })).toEqual([
      "relay.yaml:2:9 server.port: must be a number, not text (from ${X})",
    ]);
  });

  test("a secret of digits stays text", () => {
    const settings = load(
      "control:\n  tokens:\n    - name: a\n      scopes: [read]\n      token: ${T}",
      { T: "1234567890123456" },
    );
    expect(settings.control.tokens[0]?.token.reveal()).toBe("1234567890123456");
  });

  test("in a condition, quotes tell text from numbers", () => {
    const text =
      "routes:\n  - name: r\n    to: { url: https://a.example }\n    match:\n      where:\n        a: ${N}\n        b: '${N}'\n        c: ${B}";
    expect(load(text, { N: "5", B: "true" }).routes[0]?.match.where).toEqual({
      a: 5,
      b: "5",
      c: true,
    });
  });

  test("reports every unset variable at its place, without the faults that follow from it", () => {
    const text =
      'accounts: { m: {} }\nsources:\n  s: { account: m, signature: { service: a, secrets: ["${A}", "${A}"] } }\nroutes:\n  - name: r\n    to:\n      url: ${URL}\nserver:\n  port: ${PORT}';
    expect(faultsOf(text)).toEqual([
      "relay.yaml:3:55 sources.s.signature.secrets[0]: needs the environment variable A, which is not set",
      "relay.yaml:3:63 sources.s.signature.secrets[1]: needs the environment variable A, which is not set",
      "relay.yaml:7:12 routes[0].to.url: needs the environment variable URL, which is not set",
      "relay.yaml:9:9 server.port: needs the environment variable PORT, which is not set",
    ]);
  });

  test("the source names the variable, or that its default was taken", () => {
    const text = "storage:\n  driver: ${D:-reddis}\nlog:\n  level: ${L}";
    expect(faultsOf(text, { L: "loud" })).toEqual([
      "relay.yaml:2:11 storage.driver: must be sqlite or postgres (from the default of ${D})",
      "relay.yaml:4:10 log.level: must be one of trace, debug, info, warn, error, fatal, silent (from ${L})",
    ]);
  });
});
