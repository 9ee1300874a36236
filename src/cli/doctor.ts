import type { Command } from "commander";
import { CommandFailed, type Io } from "./io.ts";
import { type SettingsOptions, withConfigOption } from "./options.ts";
import { printable, printableJson } from "./output.ts";

interface Options extends SettingsOptions {
  readonly deep?: boolean;
  readonly offline?: boolean;
  readonly json?: boolean;
}

/** Adds `doctor`. Exit code 1 when a check fails; warnings and skipped checks leave it 0. */
export function build(command: Command, io: Io): void {
  withConfigOption(command)
    .option("--deep", "check the whole store for damage; takes longer")
    .option("--offline", "call neither destinations nor the messaging service")
    .option("--json", "print {ok, checks} as JSON")
    .addHelpText(
      "after",
      `
Sends no event and changes nothing, except for a key in Redis that expires after a second. It calls the service once per
account (GET /me), and compares the running relay with the settings file. It needs a token with the scope read.

Levels:
  ok    fine
  warn  works, and needs attention; the exit code stays 0
  fail  needs repair: exit code 1
  skip  not checked, and why

Examples:
  wamid-relay doctor
  wamid-relay doctor --offline
  wamid-relay doctor --json | jq '.checks[] | select(.level != "ok")'`,
    )
    .action((options: Options) => doctor(options, io));
}

async function doctor({ config, envFile, deep = false, offline = false, json = false }: Options, io: Io): Promise<void> {
  const { runChecks } = await import("./doctor/run.ts");
  const found = await runChecks({ config, env: io.env, envFile, deep, offline });
  // Last, so that they read as one list.
  const checks = [...found.filter(({ level }) => level !== "skip"), ...found.filter(({ level }) => level === "skip")];
  const failed = checks.filter(({ level }) => level === "fail").length;
  if (json) io.out(printableJson({ ok: failed === 0, checks }));
  else {
    for (const { check, level, message, todo } of checks) {
      io.out(`${level.padEnd(4)}  ${check.padEnd(17)}  ${printable(message)}${todo === undefined ? "" : ` → ${printable(todo)}`}`);
    }
  }
  if (failed > 0) throw new CommandFailed(`${failed} of ${checks.length} checks failed`);
}
