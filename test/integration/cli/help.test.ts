import { describe, expect, test } from "vitest";
import { commandGroups, commands } from "../../../src/cli/commands.ts";
import { everyCommand, listedCommands } from "../../harness/every-command.ts";
import { runHere } from "../../harness/run-here.ts";

test.each(listedCommands)(
  "the list of commands shows the options and arguments of $name",
  ({ usage, command }) => {
    const options = command.options.length === 0 ? [] : ["[options]"];
    const given = command.registeredArguments.map((each) => {
      const name = each.variadic ? `${each.name()}...` : each.name();
      return each.required ? `<${name}>` : `[${name}]`;
    });
    expect(usage).toBe([...options, ...given].join(" "));
  },
);

test("--help lists the groups in their order, each with its commands", async () => {
  const { code, out } = await runHere(["--help"]);
  expect(code).toBe(0);
  const inHelp = commandGroups.map((group) => {
    const text =
      new RegExp(`^${group}:\\n([\\s\\S]*?)(?=^\\S|$(?![\\s\\S]))`, "m").exec(out)?.[1] ?? "";
    return [group, [...text.matchAll(/^ {2}(\w+)/gm)].map(([, name]) => name)];
  });
  const inTable = commandGroups.map((group) => [
    group,
    commands.filter((each) => each.group === group).map(({ name }) => name),
  ]);
  expect(inHelp).toEqual(inTable);
  expect(commands.map(({ group }) => group)).toEqual(
    commandGroups.flatMap((group) =>
      commands.flatMap((each) => (each.group === group ? [group] : [])),
    ),
  );
});

describe.each(everyCommand)("$name", ({ name, command }) => {
  test("--help works, describes each option, and shows examples with existing options", async () => {
    const { code, out, err } = await runHere([...name.split(" "), "--help"]);
    expect([code, err]).toEqual([0, ""]);
    expect(out).toMatch(/^Usage: wamid-relay /);
    // An empty list is no default that a reader can use.
    expect(out).not.toMatch(/\(default:\s+(?:\[\]|\{\})\)/);
    // The documented proxies answer 404 there.
    expect(out).not.toContain("--relay https://");
    const [, examples = ""] = out.split("\nExamples:\n");
    const own = examples.split(/[\n|]/).filter((part) => part.includes(`wamid-relay ${name}`));
    expect(own.length).toBeGreaterThan(0);
    const flags = command.options.flatMap(({ long, short }) => [long, short]);
    for (const part of own)
      for (const [flag] of part.matchAll(/(?<= )--?[a-zA-Z][\w-]*/g)) expect(flags).toContain(flag);
    for (const option of command.options) expect(option.description, option.flags).not.toBe("");
    expect(command.description()).not.toBe("");
  });
});
