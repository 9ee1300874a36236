import type { Command } from "commander";
import { type Fault, faultLine, SettingsError } from "../config/fault.ts";
import type { Settings } from "../config/schema.ts";
import type { Warning } from "../config/warnings.ts";
import { CommandFailed, type Io } from "./io.ts";
import { type SettingsOptions, withConfigOption } from "./options.ts";
import { counted, print as printText } from "./output.ts";
import { typed } from "./typed.ts";

type FileOptions = SettingsOptions & { readonly json?: boolean | undefined };

export function build(command: Command, io: Io): void {
  withConfigOption(command.command("check"))
    .description("check the settings, and print every fault with its place")
    .option("--json", "print the faults and warnings as JSON")
    .addHelpText(
      "after",
      `
Examples:
  wamid-relay config check                                 config/relay.yaml
  wamid-relay config check --config /etc/wamid-relay.yaml  another file; exit code 1 if it has faults
  wamid-relay config check --json | jq '.faults[].path'    for scripts`,
    )
    .action((options) => check(options, io));

  withConfigOption(command.command("print"))
    .description("print the settings in effect: defaults filled in, secrets as their fingerprints")
    .option("--json", "as JSON")
    .addHelpText(
      "after",
      `
Examples:
  wamid-relay config print                         as YAML
  wamid-relay config print --json | jq .retention  one part`,
    )
    .action((options) => print(options, io));

  typed(command.command("schema"))
    .description("print the JSON Schema of the settings, for editors")
    .addHelpText(
      "after",
      `
Examples:
  wamid-relay config schema > config/relay.schema.json  then begin the settings file with
  # yaml-language-server: $schema=./relay.schema.json`,
    )
    .action(async () => {
      const { editorSchema } = await import("../config/json-schema.ts");
      JSON.stringify(editorSchema(), null, 2).split("\n").forEach(io.out);
    });
}

async function check({ config, envFile, json }: FileOptions, io: Io): Promise<void> {
  const { loadSettings } = await import("../config/load.ts");
  const { settingsFailureText, warnOf } = await import("./settings-option.ts");
  const report = (faults: readonly Fault[], found: readonly Warning[]) => {
    printText(io, { json }, { ok: faults.length === 0, faults, warnings: found }, () => []);
  };
  let settings: Settings;
  try {
    settings = loadSettings(config, io.env, envFile);
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    report(error.faults, []);
    throw new CommandFailed(settingsFailureText(config, error));
  }
  report([], await warnOf(settings, json === true ? { err: () => {} } : io));
  if (json === true) return;
  const { accounts, sources, routes } = settings;
  const counts = [
    counted(accounts, "account"),
    counted(sources, "source"),
    counted(routes, "route"),
  ].join(", ");
  io.out(`${config} is valid: ${counts}`);
}

async function print(options: FileOptions, io: Io): Promise<void> {
  const { printableSettings, printSettings } = await import("../config/print.ts");
  const { readForLooking } = await import("./settings-option.ts");
  const { settings, missing } = readForLooking(options, io);
  for (const fault of missing) io.err(`note: ${faultLine(fault)}`);
  printText(io, options, printableSettings(settings), () =>
    printSettings(settings).trimEnd().split("\n"),
  );
}
