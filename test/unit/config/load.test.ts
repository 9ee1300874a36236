import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { SettingsError } from "../../../src/config/fault.ts";
import { loadSettings, parseSettings } from "../../../src/config/load.ts";
import { tempFolder } from "../../harness/temp-folder.ts";
import { faultsOf } from "./faults-of.ts";

const folder = tempFolder();

describe("the file", () => {
  test("missing, a directory, not UTF-8, too large: one clear line with the path", () => {
    const missing = join(folder, "none.yaml");
    expect(() => loadSettings(missing, {})).toThrow(
      `${missing}: file not found (--config sets its path; "wamid-relay init" writes a new one)`,
    );
    expect(() => loadSettings(folder, {})).toThrow("is a directory");
    const latin = join(folder, "latin.yaml");
    writeFileSync(latin, Buffer.from([0x61, 0x3a, 0x20, 0xe9]));
    expect(() => loadSettings(latin, {})).toThrow("is not UTF-8 text");
    const large = join(folder, "large.yaml");
    writeFileSync(large, `# ${"x".repeat(1024 * 1024)}`);
    expect(() => loadSettings(large, {})).toThrow("is larger than 1 MiB");
  });

  test("is named in faults as it was given", () => {
    const path = join(folder, "fault.yaml");
    writeFileSync(path, "server:\n  port: many\n");
    try {
      loadSettings(path, {});
      expect.unreachable();
    } catch (error) {
      expect(error).toBeInstanceOf(SettingsError);
      expect((error as SettingsError).faults).toEqual([
        { path: "server.port", message: "must be a number, not text", source: `${path}:2:9` },
      ]);
    }
  });

  test("empty, comments only, no mapping, or all sections empty", () => {
    expect(faultsOf("")).toEqual(["relay.yaml:1:1: is empty: there are no settings in it"]);
    expect(faultsOf("# nothing\n")).toEqual([
      "relay.yaml:1:1: is empty: there are no settings in it",
    ]);
    expect(faultsOf("- a")).toEqual([
      "relay.yaml:1:1: must be a mapping of settings (server:, sources:, routes:, …)",
    ]);
    expect(parseSettings("routes:\n  # - name: r\nlog:\n", "relay.yaml", {}).routes).toEqual([]);
  });

  test("a relative storage path stays as it is: relative to the working directory", () => {
    expect(
      parseSettings("storage: { path: here/relay.db }", "/etc/relay.yaml", {}).storage,
    ).toMatchObject({ path: "here/relay.db" });
  });
});

describe("broken YAML", () => {
  test.each([
    [
      "server:\n  host: 'abc\nlog: {}",
      "relay.yaml:2:9: begins with ', which nothing closes: add the closing '",
    ],
    [
      "log: {}\na: [{ b: c }, { d: 'e]' }\n\nserver: {}",
      "relay.yaml:2:4: begins with [, which nothing closes: add the closing ], and indent the lines inside",
    ],
    [
      '{ "server": { "port": 1 },\n  "log": { "level": "info"\n',
      "relay.yaml:2:10: begins with {, which nothing closes: add the closing }, and indent the lines inside",
    ],
    [
      "server:\n  port: 1\n host: a",
      "relay.yaml:3:1: is not indented like the lines it belongs to",
    ],
    ["server:\n\tport: 1", "relay.yaml:2:1: is indented with a tab; YAML takes spaces only"],
    ["a: b: c", "relay.yaml:1:4: has a second ': ' on the line: put the value in quotes"],
    [
      "log: {}\n---\nlog: {}",
      "relay.yaml:2:1: begins a second document (---); the settings are one",
    ],
    ["server:\n  host: !secret x", "relay.yaml:2:9: has a tag (!…) that means nothing here"],
    ["? [a]\n: b", "relay.yaml:1:3: has a key that is not plain text"],
    [
      "server: { port: ${PORT} }",
      'relay.yaml:1:18: is not valid YAML; inside { } and [ ] a variable must be in quotes: "${NAME}"',
    ],
  ])("%j", (text, line) => {
    expect(faultsOf(text)).toEqual([line]);
  });

  test("does not quote what the parser would quote", () => {
    const secret = "s3cr3t";
    for (const text of [
      `a: "\\x${secret}"`,
      `a: !${secret} x`,
      `a: "x" ${secret}`,
      `a: |${secret}`,
      `${secret}\nb: 1`,
      `a: *${secret}`,
    ]) {
      const lines = faultsOf(text);
      expect(lines).not.toEqual([]);
      expect(lines.join("\n")).not.toContain(secret);
    }
  });

  test("refuses deep nesting", () => {
    expect(faultsOf("[".repeat(20_000))).toEqual([expect.stringMatching(/is nested too deep$/)]);
    expect(faultsOf(`a: ${"[".repeat(100)}${"]".repeat(100)}`)).toEqual([
      expect.stringMatching(/is nested deeper than 64 levels$/),
    ]);
  });
});

describe("keys and aliases", () => {
  test("a repeated key names the first place and hides no other fault", () => {
    expect(faultsOf("log: {}\nserver: { port: 70000 }\nlog: { level: debug }")).toEqual([
      "relay.yaml:2:17 server.port: must be at most 65535",
      "relay.yaml:3:1 log: is given twice, first on line 1",
    ]);
  });

  test("an unknown key suggests the nearest known one", () => {
    expect(faultsOf("server: { prot: 1, bodyLimits: 1MiB }\nroute: []")).toEqual([
      "relay.yaml:1:11 server.prot: unknown setting (did you mean port?)",
      "relay.yaml:1:20 server.bodyLimits: unknown setting (did you mean bodyLimit?)",
      "relay.yaml:2:1 route: unknown setting (did you mean routes?)",
    ]);
    expect(faultsOf("log: { colour: yes }")).toEqual([
      "relay.yaml:1:8 log.colour: unknown setting (there are: level, format, pii)",
    ]);
  });

  test("distinguishes a key of another kind of source from a typing mistake", () => {
    const text =
      'accounts: { m: {} }\nsources:\n  s: { account: m, mode: ack, signature: { service: a, secrets: ["x"] } }';
    expect(faultsOf(text)).toEqual([
      expect.stringContaining(
        "sources.s.mode: unknown setting here (it belongs to another kind of source)",
      ),
    ]);
  });

  test("aliases stand for whole values, each with the faults of its place", () => {
    const text = `
routes:
  - name: a
    to: { url: "https://a.example", retry: &r { schedule: [0s, 5s] } }
  - name: b
    to: { url: "https://b.example", retry: *r }`;
    expect(parseSettings(text, "relay.yaml", {}).routes[1]?.to.retry.schedule).toEqual([0, 5000]);
    expect(faultsOf(text.replace("5s]", "5x]"))).toEqual([
      expect.stringMatching(
        /^relay.yaml:4:64 routes\[0\]\.to\.retry\.schedule\[1\]: is not a duration/,
      ),
      expect.stringMatching(
        /^relay.yaml:4:64 routes\[1\]\.to\.retry\.schedule\[1\]: is not a duration/,
      ),
    ]);
  });

  test("aliases of aliases of aliases are refused, before they are made", () => {
    const rows = Array.from(
      { length: 9 },
      (_, row) => `k${row}: &a${row} [${`*a${row - 1},`.repeat(row === 0 ? 0 : 9)} x]`,
    );
    expect(faultsOf(rows.join("\n"))).toEqual([
      expect.stringMatching(/aliases stand for more than 10000 values$/),
    ]);
  });

  test("an alias without anchor, an alias of itself, a merge key, __proto__", () => {
    expect(faultsOf("log: *nowhere")).toEqual([
      "relay.yaml:1:1 log: is an alias of an anchor that does not stand before it",
    ]);
    expect(faultsOf("routes: &r [*r]")).toEqual([
      expect.stringMatching(/^relay\.yaml:1:13 routes(\[0\])+: is nested deeper than 64 levels$/),
    ]);
    expect(faultsOf("log: { <<: { level: info } }")).toEqual([
      expect.stringContaining("merge keys (<<) are not taken"),
    ]);
    expect(faultsOf("accounts: { __proto__: { plan: escala } }")).toEqual([
      expect.stringContaining("accounts.__proto__: is not a key"),
    ]);
  });

  test("an anchor's name may be used again: an alias means the one before it", () => {
    const settings = parseSettings(
      "server: { host: &x one }\nstorage: { path: *x }\nlog: { level: &x debug }",
      "f",
      {},
    );
    expect([settings.storage, settings.log.level]).toEqual([
      { driver: "sqlite", path: "one" },
      "debug",
    ]);
  });
});

describe("wording", () => {
  test("many faults come at once, in the order of the file, each at its place", () => {
    const text = `
server:
  port: "8080"
  bodyLimit: 5
  maxInFlight: 0.5
  trustProxy: [10.0.0.0/99]
accounts: { "a b": {} }
control: { tokens: [{ name: x, scopes: [] }] }
log: { level: warning, pii: }
routes:
  - to: { url: "ftp://x.example", timeout: 1h, rate: 0/s }
    match: { events: [], where: { a: [1] }, errorCodes: [{}] }`;
    expect(faultsOf(text)).toEqual([
      "relay.yaml:3:9 server.port: must be a number, not text",
      "relay.yaml:4:14 server.bodyLimit: must be a size (like 512B, 256KiB, 1MiB)",
      "relay.yaml:5:16 server.maxInFlight: must be a whole number, not a fraction",
      "relay.yaml:6:16 server.trustProxy[0]: is not an address, a range such as 10.0.0.0/8, loopback, linklocal or uniquelocal",
      "relay.yaml:7:13 accounts[…]: is not a name (letters, digits, . _ -, at most 64)",
      "relay.yaml:8:21 control.tokens[0].token: is missing",
      "relay.yaml:8:32 control.tokens[0].scopes: must have at least one entry",
      "relay.yaml:9:15 log.level: must be one of trace, debug, info, warn, error, fatal, silent (did you mean warn?)",
      "relay.yaml:9:29 log.pii: is empty",
      "relay.yaml:11:5 routes[0].name: is missing",
      "relay.yaml:11:16 routes[0].to.url: is not an http or https URL",
      "relay.yaml:11:44 routes[0].to.timeout: must be from 100ms to 5m",
      "relay.yaml:11:54 routes[0].to.rate: must be more than zero",
      "relay.yaml:12:14 routes[0].match.events: must have at least one entry",
      "relay.yaml:12:35 routes[0].match.where.a: is a list; for one of several values use $in",
      "relay.yaml:12:58 routes[0].match.errorCodes[0]: must be text or a number",
    ]);
  });
});
