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
    .option("--deep", "read the whole store for damage; takes a while")
    .option("--offline", "ask neither destinations nor the messaging service")
    .option("--json", "print {ok, checks} as JSON")
    .addHelpText(
      "after",
      `
Changes nothing (in Redis it writes a key that goes after a second), sends no event, and may run beside the relay. With each account's API key it asks the
messaging service once (GET /me). With a token that has the scope read it compares the running relay
with the settings file: version, store, settings, secrets. Each line is ok, warn, fail or skip (not checked, and why). The exit code is 1 when anything fails.

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
