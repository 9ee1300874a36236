import { Command, CommanderError } from "commander";
import { relayVersion } from "../model/version.ts";
import { commands } from "./commands.ts";
import { emptyText, type Io, isForUser, processIo, safeIo } from "./io.ts";

export async function createProgram(io: Io, loaded: string | undefined): Promise<Command> {
  const program = new Command("wamid-relay")
    .description("Relay and event-processing worker for a WhatsApp-style messaging service")
    .version(relayVersion())
    .showHelpAfterError("(--help lists the options)")
    .exitOverride()
    .configureOutput({
      writeOut: (text) => text.trimEnd().split("\n").forEach(io.out),
      writeErr: (text) => text.trimEnd().split("\n").forEach(io.err),
    })
    .configureHelp({
      subcommandTerm: (command) => `${command.name()} ${command.usage()}`.trimEnd(),
    });
  program.hook("preAction", (_, command) => {
    const empty = command.options.find((option) =>
      [command.getOptionValue(option.attributeName())].flat().includes(""),
    );
    if (empty !== undefined)
      command.error(`error: option '${empty.flags}' argument '' is invalid. ${emptyText}`);
  });
  for (const { name, group, usage, summary, load } of commands) {
    const command = program.command(name).description(summary).helpGroup(`${group}:`);
    if (name === loaded) (await load()).build(command, io);
    // Without a help option of its own, commander adds nothing to the usage.
    else command.usage(usage).helpOption(false);
  }
  return program;
}

/**
 * Runs the command line and returns the exit code: 0 done, 1 failed, 2 wrong usage.
 * `argv` is without node and script.
 */
export async function main(argv: readonly string[], given: Io = processIo()): Promise<number> {
  const io = safeIo(given);
  // Node replaces bytes that are not UTF-8, and a customer would get U+FFFD.
  const faulty = argv.findIndex((argument) => argument.includes("\ufffd"));
  if (faulty !== -1) {
    io.err(`error: argument ${faulty + 1} is not valid UTF-8`);
    return 2;
  }
  const [first, second] = argv[0] === "--" ? argv.slice(1) : argv;
  const program = await createProgram(io, first === "help" ? second : first);
  // Commander's help for an unknown command does not say that it is unknown.
  const isUnknown =
    first === "help" && second !== undefined && !commands.some(({ name }) => name === second);
  try {
    await program.parseAsync(isUnknown ? [second] : argv, { from: "user" });
    return Number(process.exitCode ?? 0);
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (isForUser(error)) {
      `wamid-relay: ${error.message}`.split("\n").forEach(io.err);
      return 1;
    }
    throw error;
  }
}
