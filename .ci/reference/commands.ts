import type { Argument, Command, Option } from "commander";
import { commandGroups, commands } from "../../src/cli/commands.ts";
import { createProgram } from "../../src/cli/main.ts";
import { block, code, linkTo, paragraphs, table } from "./markdown.ts";

interface Leaf {
  /** Such as `events list`. */
  readonly name: string;
  readonly group: string;
  readonly command: Command;
}

/** Described once, because many commands take them. */
const shared = ["--config", "--env-file", "--relay", "--token-env"];
const noIo = {
  out() {},
  err() {},
  isTerminal: false,
  env: {},
  readStdin: async () => Buffer.alloc(0),
};

export async function commandsPage(): Promise<string> {
  const leaves: Leaf[] = [];
  for (const { name, group } of commands) {
    const program = await createProgram(noIo, name);
    const command = program.commands.find((each) => each.name() === name) as Command;
    const subcommands = command.commands.map((each) => ({
      name: `${name} ${each.name()}`,
      group,
      command: each,
    }));
    leaves.push(...(subcommands.length === 0 ? [{ name, group, command }] : subcommands));
  }
  return paragraphs(
    table(
      ["command", "what it does"],
      leaves.map(({ name, command }) => [linkTo(name), command.description()]),
    ),
    "## Common options",
    table(["option", "meaning", "default"], commonOptions(leaves).map(optionRow)),
    ...commandGroups.flatMap((group) => [
      `## ${group}`,
      ...leaves.filter((leaf) => leaf.group === group).map(section),
    ]),
  );
}

function commonOptions(leaves: readonly Leaf[]): Option[] {
  const all = leaves.flatMap(({ command }) => command.options);
  return shared.flatMap((long) => all.find((option) => option.long === long) ?? []);
}

function section({ name, command }: Leaf): string {
  const own = command.options.filter(({ long }) => !shared.includes(long ?? ""));
  const common = command.options
    .filter(({ long }) => shared.includes(long ?? ""))
    .map(({ flags }) => code(flags));
  const rows = [
    ...command.registeredArguments.map(argumentRow),
    ...own.map(optionRow),
    ...(common.length === 0 ? [] : [[common.join(", "), linkTo("common options"), ""]]),
  ];
  const usage = code(`wamid-relay ${name} ${command.usage()}`);
  return paragraphs(
    `### ${name}`,
    table(["usage", "purpose"], [[usage, command.description()]]),
    table(["option", "meaning", "default"], rows),
    notes(command),
  );
}

function argumentRow(argument: Argument): string[] {
  const name = argument.variadic ? `${argument.name()}...` : argument.name();
  return [
    code(argument.required ? `<${name}>` : `[${name}]`),
    argument.description,
    argument.required ? "required" : "",
  ];
}

function optionRow({
  flags,
  description,
  defaultValue,
  argChoices,
  mandatory,
  long,
}: Option): string[] {
  const [, text = "", given] = /^(.*?)(?: \(default: (.*)\))?$/.exec(description) ?? [];
  const choices = argChoices === undefined ? "" : `: ${argChoices.map(code).join(", ")}`;
  return [
    code(flags),
    text + choices,
    mandatory ? "required" : (given ?? fallback(long, defaultValue)),
  ];
}

function fallback(long: string | undefined, value: unknown): string {
  // It depends on the folder in which the command runs.
  if (long === "--config") return "`relay.yaml` if it exists, else `config/relay.yaml`";
  if (value === undefined || typeof value === "boolean") return "";
  return code(String(value));
}

/**
 * What `--help` shows below the options: paragraphs, lists of terms (which become tables), and
 * examples.
 */
function notes(command: Command): string {
  let help = "";
  command.configureOutput({
    writeOut: (text) => {
      help += text;
    },
  });
  command.outputHelp();
  const parts = help.slice(command.helpInformation().length).trim().split("\n\n");
  return paragraphs(
    ...parts.map((part) => {
      const [first = "", ...lines] = part.split("\n");
      if (!first.endsWith(":") || lines.some((each) => !each.startsWith("  ")))
        return part.split("\n").map(escaped).join(" ");
      if (first === "Examples:") return block("sh", lines.map(exampleLine).join("\n"));
      return table([first.slice(0, -1), "meaning"], lines.map(termRow));
    }),
  );
}

const termRow = (line: string): string[] => {
  const [, term = "", meaning = ""] = /^ {2}(\S.*?) {2,}(\S.*)$/.exec(line) ?? [];
  return [
    /^[A-Za-z ,]+ [a-z ]+$/.test(term) ? term : term.split(", ").map(code).join(", "),
    meaning,
  ];
};

/** A text after an example becomes its comment. */
const exampleLine = (line: string): string => line.trim().replace(/ {2,}(?=\S)/, "  # ");

const escaped = (text: string): string => text.replaceAll("<", "\\<");
