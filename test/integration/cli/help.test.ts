import type { Command } from "commander";
import { describe, expect, test } from "vitest";
import { commandGroups, commands as listed } from "../../../src/cli/commands.ts";
import type { Io } from "../../../src/cli/io.ts";
import { createProgram, main } from "../../../src/cli/main.ts";

function recorder(): Io & { readonly printed: { out: string; err: string } } {
  const printed = { out: "", err: "" };
  return {
    printed,
    out: (line) => {
      printed.out += `${line}\n`;
    },
    err: (line) => {
      printed.err += `${line}\n`;
    },
    isTerminal: false,
    env: {},
    readStdin: async () => Buffer.alloc(0),
  };
}

interface Leaf {
  readonly path: readonly string[];
  readonly command: Command;
}

function leaves(command: Command, path: readonly string[] = []): Leaf[] {
  return command.commands.length === 0 ? [{ path, command }] : command.commands.flatMap((sub) => leaves(sub, [...path, sub.name()]));
}

const loaded = await Promise.all(
  listed.map(async ({ name, usage }) => {
    const program = await createProgram(recorder(), name);
    return { name, usage, command: program.commands.find((command) => command.name() === name) as Command };
  }),
);
const commands = loaded.flatMap(({ name, command }) => leaves(command, [name]));
test.each(loaded)("the list of commands shows the options and arguments of $name", ({ usage, command }) => {
  const options = command.options.length === 0 ? [] : ["[options]"];
  const given = command.registeredArguments.map((each) => {
    const name = each.variadic ? `${each.name()}...` : each.name();
    return each.required ? `<${name}>` : `[${name}]`;
  });
  expect(usage).toBe([...options, ...given].join(" "));
});

// The documented proxies answer 404 there.
test.each(loaded)("no example of $name gives --relay a public address", async ({ name }) => {
  const io = recorder();
  for (const { path } of commands.filter((each) => each.path[0] === name)) await main([...path, "--help"], io);
  expect(io.printed.out).not.toContain("--relay https://");
});

test("--help lists the groups in their order, each with its commands", async () => {
  const io = recorder();
  expect(await main(["--help"], io)).toBe(0);
  const inHelp = commandGroups.map((group) => {
    const text = new RegExp(`^${group}:\\n([\\s\\S]*?)(?=^\\S|$(?![\\s\\S]))`, "m").exec(io.printed.out)?.[1] ?? "";
    return [group, [...text.matchAll(/^ {2}(\w+)/gm)].map(([, name]) => name)];
  });
  const inTable = commandGroups.map((group) => [group, listed.filter((each) => each.group === group).map(({ name }) => name)]);
  expect(inHelp).toEqual(inTable);
  expect(listed.map(({ group }) => group)).toEqual(
    commandGroups.flatMap((group) => listed.flatMap((each) => (each.group === group ? [group] : []))),
  );
});

describe.each(commands.map(({ path, command }) => ({ name: path.join(" "), path, command })))("$name", ({ name, path, command }) => {
  test("--help works and shows examples with existing options", async () => {
    const io = recorder();
    expect(await main([...path, "--help"], io)).toBe(0);
    expect(io.printed.err).toBe("");
    expect(io.printed.out).toMatch(/^Usage: wamid-relay /);
    const [, examples = ""] = io.printed.out.split("\nExamples:\n");
    const own = examples.split(/[\n|]/).filter((part) => part.includes(`wamid-relay ${name}`));
    expect(own.length).toBeGreaterThan(0);
    const flags = command.options.flatMap(({ long, short }) => [long, short]);
    for (const part of own) for (const [flag] of part.matchAll(/(?<= )--?[a-zA-Z][\w-]*/g)) expect(flags).toContain(flag);
  });

  test("describes each option", () => {
    for (const option of command.options) expect(option.description, option.flags).not.toBe("");
    expect(command.description()).not.toBe("");
  });
});
