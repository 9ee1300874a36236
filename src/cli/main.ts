import { readFileSync } from "node:fs";
import { Command, CommanderError } from "commander";
import { CommandFailed, type Io, processIo } from "./io.ts";

const version = (JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string }).version;

/**
 * Each command is a file with its options and texts, which loads the rest when it runs: help and wrong usage load no package
 * but commander (test/integration/cli/start.test.ts). In the order of `--help`.
 */
const commands: Readonly<Record<string, () => Promise<(program: Command, io: Io) => void>>> = {
  serve: async () => (await import("./serve.ts")).addServeCommand,
  config: async () => (await import("./config.ts")).addConfigCommand,
  verify: async () => (await import("./verify.ts")).addVerifyCommand,
  demo: async () => (await import("./demo.ts")).addDemoCommand,
  sandbox: async () => (await import("./sandbox.ts")).addSandboxCommand,
  trigger: async () => (await import("./trigger.ts")).addTriggerCommand,
  listen: async () => (await import("./listen.ts")).addListenCommand,
  events: async () => (await import("./events.ts")).addEventsCommand,
  deliveries: async () => (await import("./deliveries.ts")).addDeliveriesCommand,
  retry: async () => (await import("./retry.ts")).addRetryCommand,
  replay: async () => (await import("./replay.ts")).addReplayCommand,
  resume: async () => (await import("./resume.ts")).addResumeCommand,
  explain: async () => (await import("./explain.ts")).addExplainCommand,
  audit: async () => (await import("./audit.ts")).addAuditCommand,
  reconcile: async () => (await import("./reconcile.ts")).addReconcileCommand,
  track: async () => (await import("./track.ts")).addTrackCommand,
  send: async () => (await import("./send.ts")).addSendCommand,
  doctor: async () => (await import("./doctor.ts")).addDoctorCommand,
  migrate: async () => (await import("./migrate.ts")).addMigrateCommand,
};

/** The command line: with the command of this name alone, or with all of them when there is none. */
export async function createProgram(io: Io, name = ""): Promise<Command> {
  const program = new Command("wamid-relay")
    .description("Relay and event-processing worker for a WhatsApp-style messaging service")
    .version(version)
    .showHelpAfterError("(add --help for the whole story)")
    .exitOverride()
    .configureOutput({ writeOut: (text) => io.out(text.trimEnd()), writeErr: (text) => io.err(text.trimEnd()) });
  const named = Object.hasOwn(commands, name) ? commands[name] : undefined;
  const loaders = named === undefined ? Object.values(commands) : [named];
  for (const add of await Promise.all(loaders.map((load) => load()))) add(program, io);
  return program;
}

/**
 * Runs the command line and returns the exit code: 0 done, 1 failed, 2 wrong usage.
 * `argv` is without node and script.
 */
export async function main(argv: readonly string[], io: Io = processIo()): Promise<number> {
  const program = await createProgram(io, argv[0]);
  try {
    await program.parseAsync(argv, { from: "user" });
    return Number(process.exitCode ?? 0);
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (error instanceof CommandFailed) {
      io.err(`wamid-relay: ${error.message}`);
      return 1;
    }
    throw error;
  }
}
