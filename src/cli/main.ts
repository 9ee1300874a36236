import { readFileSync } from "node:fs";
import { Command, CommanderError } from "commander";
import { addAuditCommand } from "./audit-command.ts";
import { addConfigCommand } from "./config-command.ts";
import { addDeliveriesCommand } from "./deliveries-command.ts";
import { addDemoCommand } from "./demo-command.ts";
import { addDoctorCommand } from "./doctor-command.ts";
import { addEventsCommand } from "./events-command.ts";
import { addExplainCommand } from "./explain-command.ts";
import { CommandFailed, type Io, processIo } from "./io.ts";
import { addListenCommand } from "./listen-command.ts";
import { addMigrateCommand } from "./migrate-command.ts";
import { addReconcileCommand } from "./reconcile-command.ts";
import { addReplayCommand } from "./replay-command.ts";
import { addResumeCommand } from "./resume-command.ts";
import { addRetryCommand } from "./retry-command.ts";
import { addSandboxCommand } from "./sandbox-command.ts";
import { addSendCommand } from "./send-command.ts";
import { addServeCommand } from "./serve-command.ts";
import { addTrackCommand } from "./track-command.ts";
import { addTriggerCommand } from "./trigger-command.ts";
import { addVerifyCommand } from "./verify-command.ts";

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
