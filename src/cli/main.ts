import { readFileSync } from "node:fs";
import { Command, CommanderError } from "commander";
import { addAuditCommand } from "./audit.ts";
import { addConfigCommand } from "./config.ts";
import { addDeliveriesCommand } from "./deliveries.ts";
import { addDemoCommand } from "./demo.ts";
import { addDoctorCommand } from "./doctor.ts";
import { addEventsCommand } from "./events.ts";
import { addExplainCommand } from "./explain.ts";
import { CommandFailed, type Io, processIo } from "./io.ts";
import { addListenCommand } from "./listen.ts";
import { addMigrateCommand } from "./migrate.ts";
import { addReconcileCommand } from "./reconcile.ts";
import { addReplayCommand } from "./replay.ts";
import { addResumeCommand } from "./resume.ts";
import { addRetryCommand } from "./retry.ts";
import { addSandboxCommand } from "./sandbox.ts";
import { addSendCommand } from "./send.ts";
import { addServeCommand } from "./serve.ts";
import { addTrackCommand } from "./track.ts";
import { addTriggerCommand } from "./trigger.ts";
import { addVerifyCommand } from "./verify.ts";

const version = (JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string }).version;

/** The command line, with all its commands. */
export function createProgram(io: Io): Command {
  const program = new Command("wamid-relay")
    .description("Relay and event-processing worker for a WhatsApp-style messaging service")
    .version(version)
    .showHelpAfterError("(add --help for the whole story)")
    .exitOverride()
    .configureOutput({ writeOut: (text) => io.out(text.trimEnd()), writeErr: (text) => io.err(text.trimEnd()) });
  // Each command is a file of its own with its options and texts; what it runs is loaded when it runs. --help and wrong usage
  // load no more than commander (test/integration/cli/start.test.ts).
  addServeCommand(program, io);
  addConfigCommand(program, io);
  addVerifyCommand(program, io);
  addDemoCommand(program, io);
  addSandboxCommand(program, io);
  addTriggerCommand(program, io);
  addListenCommand(program, io);
  addEventsCommand(program, io);
  addDeliveriesCommand(program, io);
  addRetryCommand(program, io);
  addReplayCommand(program, io);
  addResumeCommand(program, io);
  addExplainCommand(program, io);
  addAuditCommand(program, io);
  addReconcileCommand(program, io);
  addTrackCommand(program, io);
  addSendCommand(program, io);
  addDoctorCommand(program, io);
  addMigrateCommand(program, io);
  return program;
}

/**
 * Runs the command line and returns the exit code: 0 done, 1 failed, 2 wrong usage.
 * `argv` is without node and script.
 */
export async function main(argv: readonly string[], io: Io = processIo()): Promise<number> {
  const program = createProgram(io);
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
