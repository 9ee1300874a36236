import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { overriddenVariables } from "../../../src/config/env-file.ts";
import { SettingsError } from "../../../src/config/fault.ts";
import { loadSettings } from "../../../src/config/load.ts";
import { substitute } from "../../../src/config/tree.ts";
import { tempFolder } from "../../harness/temp-folder.ts";

const top = tempFolder();

let folder = "";
let path = "";
let count = 0;
const write = (name: string, text: string | Buffer) => writeFileSync(join(folder, name), text);
beforeEach(() => {
  folder = join(top, String(count++));
  mkdirSync(folder);
  path = join(folder, "relay.yaml");
  write("relay.yaml", "server: { host: '${HOST}' }\n");
});

const host = (env: Record<string, string> = {}, envFile?: string) =>
  loadSettings(path, env, envFile).server.host;

function faults(env: Record<string, string> = {}, envFile?: string): readonly string[] {
  try {
    loadSettings(path, env, envFile);
    return [];
  } catch (error) {
    return (error as SettingsError).faults.map(({ message }) => message);
  }
}

describe("the env file", () => {
  test(".env beside the settings file gives variables, and is read again each time", () => {
    write(".env", "# comment\nHOST=one\n");
    expect(host()).toBe("one");
    write(".env", 'export HOST="two"\n');
    expect(host()).toBe("two");
  });

  test("the process environment wins; overriddenVariables names what it overrides", () => {
    write(".env", "HOST=file\nSAME=x\nOTHER=y\n");
    const env = { HOST: "process", SAME: "x" };
    expect(host(env)).toBe("process");
    expect(overriddenVariables(path, { env })).toEqual(["HOST"]);
  });

  test("--env-file replaces .env, and must exist", () => {
    write(".env", "HOST=one\n");
    write("other.env", "HOST=other\n");
    expect(host({}, join(folder, "other.env"))).toBe("other");
    const missing = join(folder, "none.env");
    expect(() => loadSettings(path, { HOST: "x" }, missing)).toThrow(
      `${missing}: file not found (--env-file sets its path)`,
    );
  });

  test("files may begin with a byte order mark", () => {
    write(".env", "\ufeffHOST=one\n");
    expect(host()).toBe("one");
    write("relay.yaml", "\ufeffserver: { host: '${file:host}' }\n");
    write("host", "\ufefftwo\r\n");
    expect(host()).toBe("two");
  });

  test("neither file may be a pipe, a folder, too large or not UTF-8, and none blocks", () => {
    execFileSync("mkfifo", [join(folder, "pipe")]);
    mkdirSync(join(folder, "folder"));
    write("large", Buffer.alloc(1024 * 1024 + 1, "#"));
    write("utf-16", Buffer.from("\ufeffHOST=x\n", "utf16le"));
    const env = { HOST: "x" };
    const files = [
      ["pipe", "is not a regular file. A reload reads it again"],
      ["folder", "is a directory, not the env file"],
      ["large", "is larger than 1 MiB: is this the env file?"],
      ["utf-16", "is not UTF-8 text"],
    ] as const;
    for (const [name, message] of files) {
      expect(() => loadSettings(path, env, join(folder, name))).toThrow(message);
      expect(() => loadSettings(join(folder, name), env)).toThrow(
        message.replace("env file", "settings file"),
      );
      write("relay.yaml", `server: { host: '\${file:${name}}' }\n`);
      expect(faults(env)[0]).toContain(
        { large: "larger than 64 KiB", "utf-16": message }[name as string] ?? "not a regular file",
      );
      write("relay.yaml", "server: { host: '${HOST}' }\n");
    }
  });

  test("a name that stands twice is a fault with both lines, also with the same value", () => {
    write(
      ".env",
      "# HOST=zero\nHOST=one\nKEY='a\nHOST=in a quoted value\n'\n\nexport HOST = one\nHOST=three\n",
    );
    expect(() => host()).toThrow(
      [7, 8]
        .map(
          (line) =>
            `${join(folder, ".env")}:${line}:1: sets HOST a second time; it is already set on line 2. Keep one of the two`,
        )
        .join("\n"),
    );
  });

  test("a quote that nothing closes is a fault; others belong to the value", () => {
    write(".env", "KEY='it\"s'\nHOST=\"one\n");
    expect(() => host()).toThrow(
      `${join(folder, ".env")}:2:1: the value of HOST begins with ", which nothing closes`,
    );
    write(".env", "HOST=one # the \"first\nKEY=it's\n");
    expect(host()).toBe("one");
  });

  test("NAME: value is a fault, also without the space; a name or value may have a colon", () => {
    write(".env", "HOST: one\nKEY:'a'\n# OTHER: b\nURL=a: b\nTEXT='a\nIN: c'\nA:B=1\n");
    expect(() => host({ HOST: "x" })).toThrow(
      [
        ["1:1", "HOST"],
        ["2:1", "KEY"],
      ]
        .map(
          ([at, name]) =>
            `${join(folder, ".env")}:${at}: ${name} stands before ":"; write ${name}=, then the value`,
        )
        .join("\n"),
    );
  });

  test("without .env only the process environment counts", () => {
    expect(host({ HOST: "process" })).toBe("process");
    expect(faults()).toEqual(["needs the environment variable HOST, which is not set"]);
  });

  test("one that cannot be read is a fault, not an empty file", () => {
    mkdirSync(join(folder, ".env"));
    expect(() => host({ HOST: "x" })).toThrow(SettingsError);
    expect(() => host({ HOST: "x" })).toThrow(/\.env: is a directory, not the env file/);
  });
});

describe("${file:path}", () => {
  test("gives the file's text without the line break at its end, and is read again each time", () => {
    write("relay.yaml", "server: { host: '${file:host}' }\n");
    write("host", "one\n");
    expect(host()).toBe("one");
    write("host", "two\r\n");
    expect(host()).toBe("two");
  });

  test("takes absolute paths, paths relative to the settings file, and variables in the path", () => {
    write("secret", "s");
    for (const text of [
      "${file:secret}",
      `\${file:${join(folder, "secret")}}`,
      "${file:${DIR}/secret}",
    ]) {
      expect(substitute(text, { DIR: folder }, folder)).toMatchObject({
        text: "s",
        whole: true,
        problems: [],
      });
    }
    expect(substitute("Bearer ${file:secret}", {}, folder)).toMatchObject({
      text: "Bearer s",
      whole: false,
      origins: ["${file:secret}"],
    });
  });

  test("`${file:-x}` is still the variable `file` with a default", () => {
    expect(substitute("${file:-x}", {}, folder).text).toBe("x");
  });

  test("the file's text is not substituted again", () => {
    write("secret", "${HOME}");
    expect(substitute("${file:secret}", { HOME: "/root" }, folder)).toMatchObject({
      text: "${HOME}",
      problems: [],
    });
  });

  test("reports what is wrong with the file, by the path of the settings", () => {
    write("empty", "\n");
    write("large", "x".repeat(64 * 1024 + 1));
    write("binary", Buffer.from([0xe9]));
    const problem = (text: string) =>
      substitute(text, {}, folder).problems.map(({ message }) => message);
    expect(problem("${file:none}")).toEqual(["needs the file none, which does not exist"]);
    expect(problem("${file:.}")).toEqual(["needs the file ., which is not a regular file"]);
    expect(problem("${file:empty}")).toEqual(["needs the file empty, which is empty"]);
    expect(problem("${file:large}")).toEqual(["needs the file large, which is larger than 64 KiB"]);
    expect(problem("${file:binary}")).toEqual(["needs the file binary, which is not UTF-8 text"]);
    expect(problem("${file:${NONE}/x}")).toEqual([
      "needs the environment variable NONE, which is not set",
    ]);
    expect(problem("${file:}")[0]).toMatch(/begins no variable/);
  });

  test("faults name the file and never quote its text", () => {
    write("relay.yaml", "server:\n  port: ${file:port}\n");
    write("port", "s3cr3t");
    expect(() => host()).toThrow(
      /relay\.yaml:2:9 server\.port: must be a number, not text \(from \$\{file:port\}\)$/,
    );
  });
});
