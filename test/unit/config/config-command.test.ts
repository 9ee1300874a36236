import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Command } from "commander";
import { expect, test } from "vitest";
import { defaultSettingsPath, withConfigOption } from "../../../src/cli/options.ts";
import { readSettings } from "../../../src/cli/settings-option.ts";
import { readPage } from "../../harness/pages.ts";
import { runHere } from "../../harness/run-here.ts";
import { tempFolder } from "../../harness/temp-folder.ts";

const folder = tempFolder();

async function run(argv: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const { code, out, err } = await runHere(argv, env);
  return { code, out: out.trimEnd(), err: err.trimEnd() };
}

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const good = file("good.yaml", 'log: { level: warn }\nstorage: { path: "${P:-x.db}" }\n');
const bad = file("bad.yaml", "server:\n  port: ${PORT}\nlogs: {}\n");

test("config check prints counts, with warnings on standard error, and exits 0", async () => {
  const { code, out, err } = await run(["config", "check", "--config", good]);
  expect({ code, out }).toEqual({
    code: 0,
    out: `${good} is valid: 0 accounts, 0 sources, 0 routes`,
  });
  expect(err).toMatch(/^warning: sources: there are none/);
});

test("config check prints one line per fault, with its place, and exits 1", async () => {
  const { code, out, err } = await run(["config", "check", "--config", bad], { PORT: "x" });
  expect({ code, out }).toEqual({ code: 1, out: "" });
  expect(err.split("\n")).toEqual([
    `wamid-relay: the settings in ${bad} have 2 faults:`,
    `${bad}:2:9 server.port: must be a number, not text (from \${PORT})`,
    `${bad}:3:1 logs: unknown setting (did you mean log?)`,
  ]);
});

test("config check --json prints faults and warnings", async () => {
  const failed = await run(["config", "check", "--json", "--config", bad], { PORT: "x" });
  expect(failed.code).toBe(1);
  expect(JSON.parse(failed.out)).toEqual({
    ok: false,
    faults: [
      {
        path: "server.port",
        message: "must be a number, not text",
        source: `${bad}:2:9 from \${PORT}`,
      },
      { path: "logs", message: "unknown setting (did you mean log?)", source: `${bad}:3:1` },
    ],
    warnings: [],
  });
  const passed = await run(["config", "check", "--json", "--config", good]);
  expect(JSON.parse(passed.out)).toMatchObject({
    ok: true,
    faults: [],
    warnings: [{ path: "sources" }, { path: "control.tokens" }],
  });
  expect(passed.err).toBe("");
});

test("config print shows the settings in effect, and the faults when there are any", async () => {
  const yaml = await run(["config", "print", "--config", good], { P: "y.db" });
  expect(yaml).toMatchObject({ code: 0, err: "" });
  expect(yaml.out).toContain("path: y.db");
  const json = await run(["config", "print", "--json", "--config", good]);
  expect(JSON.parse(json.out)).toMatchObject({
    log: { level: "warn", pii: "masked" },
    retention: { events: "30d" },
  });
  expect(await run(["config", "print", "--config", bad], { PORT: "1" })).toMatchObject({
    code: 1,
    out: "",
  });
});

test("config/relay.schema.json is the schema of the settings", async () => {
  const { code, out, err } = await run(["config", "schema"]);
  expect([code, err]).toEqual([0, ""]);
  expect(`${out}\n`).toBe(readPage("config/relay.schema.json"));
});

test("other commands get --config with its default, and a CommandFailed with every fault", () => {
  const command = new Command("x");
  withConfigOption(command);
  command.parse([], { from: "user" });
  expect(command.opts()).toEqual({ config: defaultSettingsPath() });
  const io = {
    out: () => {},
    err: () => {},
    isTerminal: false,
    env: { PORT: "x" },
    readStdin: async () => Buffer.alloc(0),
  };
  expect(readSettings({ config: good }, io).log.level).toBe("warn");
  expect(() => readSettings({ config: bad }, io)).toThrow(
    /^the settings in .* have 2 faults:\n.*server\.port: .*\n.*logs: unknown setting/,
  );
});
