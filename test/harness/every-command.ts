import type { Command } from "commander";
import { commands } from "../../src/cli/commands.ts";
import { createProgram } from "../../src/cli/main.ts";

const silent = {
  out: () => {},
  err: () => {},
  isTerminal: false,
  env: {},
  readStdin: async () => Buffer.alloc(0),
};

/** Of each row of the list of commands, with its subcommands. */
export const listedCommands = await Promise.all(
  commands.map(async ({ name, usage }) => {
    const program = await createProgram(silent, name);
    return {
      name,
      usage,
      command: program.commands.find((command) => command.name() === name) as Command,
    };
  }),
);

interface Leaf {
  /** With spaces: `events list`. */
  readonly name: string;
  readonly command: Command;
}

const leaves = (command: Command, name: string): Leaf[] =>
  command.commands.length === 0
    ? [{ name, command }]
    : command.commands.flatMap((sub) => leaves(sub, `${name} ${sub.name()}`));

/** What has no subcommands. */
export const everyCommand = listedCommands.flatMap(({ name, command }) => leaves(command, name));
