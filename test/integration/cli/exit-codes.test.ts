import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { expect, test } from "vitest";
import { commands } from "../../../src/cli/commands.ts";
import { createProgram } from "../../../src/cli/main.ts";
import { type Ran, runHere } from "../../harness/run-here.ts";
import { runCli } from "./run-cli.ts";

/*
 * The table "Exit codes" of docs/reference/commands.md. Code 3, and code 1 of a command that did its work and found something wrong, are
 * tested with the command: reconcile, audit, doctor, retry, track, trigger, verify, demo.
 */

interface Leaf {
  readonly path: readonly string[];
  readonly command: Command;
}

const silent = { out: () => {}, err: () => {}, isTerminal: false, env: {}, readStdin: async () => Buffer.alloc(0) };
const leaves = (command: Command, path: readonly string[]): Leaf[] =>
  command.commands.length === 0 ? [{ path, command }] : command.commands.flatMap((sub) => leaves(sub, [...path, sub.name()]));
const all = (
  await Promise.all(
    commands.map(async ({ name }) => {
      const program = await createProgram(silent, name);
      return leaves(program.commands.find((command) => command.name() === name) as Command, [name]);
    }),
  )
).flat();
const byName = all.map((leaf) => [leaf.path.join(" "), leaf] as const);

const nowhere = "/nowhere/relay.yaml";
/** Options that a command needs before it reads its settings. */
const needed: Readonly<Record<string, readonly string[]>> = {
  migrate: ["--from", "sqlite", "--to", "postgres"],
  send: ["--to", "+5491155550100", "--text", "hola"],
  track: ["--wamid", "wamid.x"],
  trigger: ["message.status"],
  resume: ["everything"],
  verify: ["--body", "package.json", "--source", "main"],
};
/** How commands without --config fail. */
const failing: Readonly<Record<string, readonly string[]>> = {
  "config schema": ["--check", "/nowhere/schema.json"],
  sandbox: ["--port", "0", "--state", "/nowhere/sandbox.db"],
  verify: ["--secret-file", "/nowhere/secret", "--body", "/nowhere/body"],
};
/** Commands that print a report on standard output although they failed. */
const reporting = new Set(["doctor"]);

const isUsage = ({ code, out, err }: Ran) => ({ code, out, isSaid: /^(error|Usage): ?/.test(err) });
const wrongUsage = { code: 2, out: "", isSaid: true };

test.each(byName)(
  "%s: an unknown option, and an argument too many, end with 2 and leave standard output empty",
  async (_, { path, command }) => {
    expect(isUsage(await runHere([...path, "--no-such-option"]))).toEqual(wrongUsage);
    if (command.registeredArguments.at(-1)?.variadic === true) return;
    const excess = [...command.registeredArguments.map(() => "x"), "one-too-many"];
    expect(isUsage(await runHere([...path, ...excess]))).toEqual(wrongUsage);
  },
);

const optionsOf = (path: readonly string[]): readonly string[] => needed[path.join(" ")] ?? [];
const argumentsOf = ({ command }: Leaf): readonly string[] => command.registeredArguments.filter((each) => each.required).map(() => "1");

const hasSettings = ({ command }: Leaf) => command.options.some(({ long }) => long === "--config");

test.each(byName.filter(([, leaf]) => hasSettings(leaf)))("%s: settings that cannot be read end with 1", async (name, leaf) => {
  const { code, out, err } = await runHere([...leaf.path, ...argumentsOf(leaf), ...optionsOf(leaf.path), "--config", nowhere]);
  expect([code, err]).toEqual([1, expect.stringMatching(/^wamid-relay: /)]);
  if (reporting.has(name)) expect(out).toContain(nowhere);
  else {
    expect(out).toBe("");
    expect(err).toContain(nowhere);
  }
});

test.each(Object.entries(failing).filter(([, args]) => args.length > 0))("%s: what it cannot do ends with 1", async (name, args) => {
  const { code, out, err } = await runHere([...name.split(" "), ...args]);
  expect([code, out]).toEqual([1, ""]);
  expect(err).toMatch(/^wamid-relay: .*\/nowhere\//m);
});

test("every command without --config is in the list of those that fail otherwise", () => {
  const others = byName.filter(([, leaf]) => !hasSettings(leaf)).map(([name]) => name);
  // `init` makes the settings, and `demo` has its own: their failures are tested with them.
  expect(others.filter((name) => name !== "init" && name !== "demo" && failing[name] === undefined)).toEqual([]);
});

test.each([
  ["an unknown command", ["evnts"]],
  ["no command", []],
  ["no subcommand", ["events"]],
  ["an unknown subcommand", ["config", "chek"]],
  ["a word outside a list", ["events", "list", "--disposition", "routd"]],
  ["a plan that there is not", ["sandbox", "--port", "0", "--plan", "gold"]],
  ["a key that the sandbox does not take", ["sandbox", "--port", "0", "--key", "short"]],
  ["a place that is none", ["deliveries", "list", "--before", "x"]],
  ["a missing argument", ["events", "show"]],
  ["an environment variable that is not set", ["verify", "--secret-env", "NOT_SET_HERE", "--body", "-"]],
])("%s ends with 2", async (_, args) => {
  const { code, out, err } = await runHere(args);
  expect([code, out]).toEqual([2, ""]);
  expect(err).not.toBe("");
});

test.each([[["--help"]], [["help"]], [["--version"]], [["events", "list", "--help"]]])("%j ends with 0", async (args) => {
  expect(await runHere(args)).toMatchObject({ code: 0, err: "" });
});

test("a process ends with these codes", async () => {
  expect((await runCli(["--version"])).code).toBe(0);
  expect((await runCli(["events", "list", "--config", nowhere])).code).toBe(1);
  expect((await runCli(["events", "list", "--no-such-option"])).code).toBe(2);
});

test("docs/reference/commands.md lists the codes once", () => {
  const docs = readFileSync(new URL("../../../docs/reference/commands.md", import.meta.url), "utf8");
  const table = /^## Exit codes\n([\s\S]*?)(?=^## )/m.exec(docs)?.[1] ?? "";
  expect([...table.matchAll(/^\| (\d[\d, ]*) \|/gm)].map(([, code]) => code)).toEqual(["0", "1", "2", "3", "130, 143"]);
});

test("an error quotes an argument without what a terminal would act upon", async () => {
  const { code, out, err } = await runHere(["\u001b[2Jevents"]);
  expect([code, out]).toEqual([2, ""]);
  expect(err).toContain("\\u001b[2Jevents");
  expect(err).not.toContain("\u001b");
});
