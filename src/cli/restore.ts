import type { Command } from "commander";
import { refused, size, storePath, verdict } from "./backup.ts";
import type { Io } from "./io.ts";
import { givenArgument, type SettingsOptions, withConfigOption } from "./options.ts";
import { printable, printableJson, withCommas } from "./output.ts";
import { createProgressBar } from "./progress.ts";

interface Options extends SettingsOptions {
  readonly force?: boolean;
  readonly json?: boolean;
}

/** Adds `restore`: puts a backup in place of the SQLite file. */
export function build(command: Command, io: Io): void {
  withConfigOption(command)
    .argument("<file>", "the backup to restore", givenArgument)
    .option("--force", "rename an existing store and restore the backup in its place")
    .option("--json", "print {file, bytes, events, deliveries, balanced, replaced, tookMs} as JSON")
    .addHelpText(
      "after",
      `
Stop the relay first. The command checks and audits the backup before it changes anything. What was received after the backup
is missing, and deliveries made after it can go out again under the same ids.

Examples:
  wamid-relay restore /backups/relay.db
  wamid-relay restore /backups/relay.db --force --config /etc/wamid-relay/relay.yaml`,
    )
    .action((file: string, options: Options) => run(file, options, io));
}

async function run(file: string, { force = false, json = false, ...options }: Options, io: Io): Promise<void> {
  const [{ restore }, { offenderLines }] = await Promise.all([import("../store/sqlite/backup.ts"), import("./audit.ts")]);
  const path = await storePath(options, io, "restore");
  const bar = createProgressBar(io, json);
  const made = await restore(file, path, new Date(), { force, progress: bar.show }).catch(refused).finally(bar.end);
  const { rows, balanced } = made.audit;
  const { events, deliveries } = rows;
  const { bytes, replaced } = made;
  if (json) io.out(printableJson({ file: path, bytes, events, deliveries, balanced, replaced, tookMs: Math.round(made.tookMs) }));
  else {
    io.out(
      printable(`${path}: ${withCommas(events)} events and ${withCommas(deliveries)} deliveries, ${size(bytes)}; ${verdict(balanced)}`),
    );
    if (replaced !== null) io.out(printable(`the store that was there is now ${replaced}`));
  }
  if (balanced) return;
  for (const line of offenderLines(made.audit)) io.err(line);
  process.exitCode = 1;
}
