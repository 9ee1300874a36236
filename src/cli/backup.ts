import type { Command } from "commander";
import { CommandFailed, type Io } from "./io.ts";
import { givenArgument, type SettingsOptions, withConfigOption } from "./options.ts";
import { printable, printableJson, withCommas } from "./output.ts";
import { createProgressBar } from "./progress.ts";

interface Options extends SettingsOptions {
  readonly force?: boolean;
  readonly json?: boolean;
}

/** Adds `backup`: a checked and audited copy of the SQLite file. */
export function build(command: Command, io: Io): void {
  withConfigOption(command)
    .argument("<file>", "the backup to write", givenArgument)
    .option("--force", "replace an existing backup")
    .option("--json", "print {file, bytes, events, deliveries, balanced, tookMs} as JSON")
    .addHelpText(
      "after",
      `
The relay can run meanwhile. The backup has every event acknowledged before the command started. Do not copy the store with cp:
its newest events are in the write-ahead log beside it. Exit code 1: no backup was written, or the sums of the copy do not match.

Examples:
  wamid-relay backup /backups/relay.db
  wamid-relay backup "/backups/relay-$(date +%F).db" --config /etc/wamid-relay/relay.yaml`,
    )
    .action((file: string, options: Options) => backup(file, options, io));
}

async function backup(file: string, { force = false, json = false, ...options }: Options, io: Io): Promise<void> {
  const [{ backUp }, { offenderLines }] = await Promise.all([import("../store/sqlite/backup.ts"), import("./audit.ts")]);
  const path = await storePath(options, io, "back up");
  const bar = createProgressBar(io, json);
  const made = await backUp(path, file, { force, progress: bar.show }).catch(refused).finally(bar.end);
  const { rows, balanced } = made.audit;
  const { events, deliveries } = rows;
  if (json) io.out(printableJson({ file, bytes: made.bytes, events, deliveries, balanced, tookMs: Math.round(made.tookMs) }));
  else
    io.out(
      printable(
        `${file}: ${withCommas(events)} events and ${withCommas(deliveries)} deliveries, ${size(made.bytes)}; ${verdict(balanced)}`,
      ),
    );
  if (balanced) return;
  for (const line of offenderLines(made.audit)) io.err(line);
  process.exitCode = 1;
}

/** Path of the SQLite file. Fails for Redis, which has its own tools. */
export async function storePath(options: SettingsOptions, io: Io, what: string): Promise<string> {
  const { readForLooking } = await import("./settings-option.ts");
  const { storage } = readForLooking(options, io).settings;
  if (storage.driver === "sqlite") return storage.path;
  throw new CommandFailed(`${options.config} stores in Redis: ${what} with the tools of Redis, as docs/backup.md describes`);
}

/** Turns a refusal of the store into an error message. */
export async function refused(error: unknown): Promise<never> {
  const { StoreRefused } = await import("../store/port.ts");
  if (error instanceof StoreRefused) throw new CommandFailed(error.message, { cause: error });
  throw error;
}

export function verdict(balanced: boolean): string {
  return balanced ? "checked, the sums match" : "the sums do not match";
}

export function size(bytes: number): string {
  return `${(bytes / 1024 ** 2).toFixed(1)} MiB`;
}
