import type { Command } from "commander";
import { CommandFailed, type Io } from "./io.ts";
import { withConfigOption } from "./options.ts";
import { print } from "./output.ts";
import type { OptionsOf } from "./typed.ts";

export function build(command: Command, io: Io): void {
  declare(command).action((options) => doctor(options, io));
}

type Options = OptionsOf<typeof declare>;

function declare(command: Command) {
  return withConfigOption(command)
    .option("--deep", "check the whole store for damage; takes longer")
    .option("--offline", "call neither destinations nor the messaging service")
    .option("--handshake", "repeat Meta's handshake with destinations that have answered it before")
    .option("--strict", "exit with 1 on warnings too")
    .option("--json", "print {ok, checks} as JSON")
    .addHelpText(
      "after",
      `
Sends no event. It calls the service once per account (GET /me). The relay performs Meta's handshake once with each destination
that has a verifyToken, and stores the time. This takes a token with the scope replay.

A running relay reports what its console lists as needing action, to a token with the scope read. Otherwise doctor reads the
store by the same endpoints.

Levels:
  ok    fine
  warn  works, and needs attention; the exit code stays 0 without --strict
  fail  needs repair: exit code 1
  skip  not checked, and why

Examples:
  wamid-relay doctor
  wamid-relay doctor --offline
  wamid-relay doctor --strict             any finding is an error
  wamid-relay doctor --json | jq '.checks[] | select(.level != "ok")'`,
    );
}

async function doctor(
  {
    config,
    envFile,
    deep = false,
    offline = false,
    handshake = false,
    strict = false,
    json = false,
  }: Options,
  io: Io,
): Promise<void> {
  const { runChecks } = await import("./doctor/run.ts");
  const found = await runChecks({ config, env: io.env, envFile, deep, offline, handshake });
  // Last, so that they read as one list.
  const checks = [
    ...found.filter(({ level }) => level !== "skip"),
    ...found.filter(({ level }) => level === "skip"),
  ];
  const count = (of: string): number => checks.filter(({ level }) => level === of).length;
  const [failed, warned] = [count("fail"), count("warn")];
  const isOk = failed === 0 && !(strict && warned > 0);
  print(io, { json }, { ok: isOk, checks }, () =>
    checks.map(({ check, level, message, todo }) => {
      return `${level.padEnd(4)}  ${check.padEnd(19)}  ${message}${todo === undefined ? "" : ` → ${todo}`}`;
    }),
  );
  if (!isOk)
    throw new CommandFailed(
      `${failed} of ${checks.length} checks failed${strict && warned > 0 ? `, ${warned} warned` : ""}`,
    );
}
