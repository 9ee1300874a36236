import type { Command } from "commander";
import { bytesText } from "./doctor/finding.ts";
import { CommandFailed, type Io, interruptible } from "./io.ts";
import { givenArgument, withConfigOption } from "./options.ts";
import { print, withCommas } from "./output.ts";
import { createProgressBar } from "./progress.ts";
import type { OptionsOf } from "./typed.ts";

/** Adds `backup`: a checked and audited copy of the store, while the relay runs. */
export function build(command: Command, io: Io): void {
  declare(command).action((file, options) => runBackup(file, options, io));
}

type Options = OptionsOf<typeof declare>;

function declare(command: Command) {
  return withConfigOption(command)
    .argument("<file>", "the backup", givenArgument)
    .option("--force", "replace the file if it exists")
    .option("--json", "print {file, bytes, at, audit, tookMs} as JSON")
    .addHelpText(
      "after",
      `
The backup has every event that the relay acknowledged before the command started. The file gets its name after SQLite
checked every table and an audit checked every row. With another storage.driver, back up the server itself.

Exit codes:
  0  the backup is complete, and its sums match
  1  there is no backup; or its sums do not match, and standard error names the rows

Examples:
  wamid-relay backup /backups/relay.db
  wamid-relay backup /backups/relay.db --force --config /etc/wamid-relay/relay.yaml
  wamid-relay backup /backups/relay.db --force --json | jq .audit.balanced`,
    );
}

/** What `backup` and `restore` do alike. `act` gets the store's path. */
export async function onStoreFile<Report extends { readonly audit: { readonly at: number; readonly balanced: boolean } }>(
  { config, envFile, force = false, json = false }: Options,
  io: Io,
  file: string,
  act: (order: import("../store/sqlite/backup.ts").BackupOrder) => Promise<Report>,
): Promise<Report> {
  const { readPart } = await import("./settings-option.ts");
  const storage = readPart("storage", { config, envFile }, io);
  if (storage.driver !== "sqlite") {
    throw new CommandFailed(
      `${config} has storage.driver ${storage.driver}: back up that server itself, as docs/how-to/back-up-and-restore.md describes`,
    );
  }
  const { StoreRefused, StoreUnavailable } = await import("../store/port.ts");
  const bar = createProgressBar(io, json);
  using stopping = interruptible();
  try {
    return await act({
      path: storage.path,
      file,
      replace: force,
      now: Date.now,
      signal: stopping.signal,
      progress(step, { checked, of }) {
        const unit = step === "copying" ? "pages" : "events";
        if (step === "checking") bar.show(null, "checking every table");
        else bar.show(of === 0 ? 0 : checked / of, `${step}: ${withCommas(checked)} of ${withCommas(of)} ${unit}`);
      },
    });
  } catch (error) {
    if (stopping.signal.aborted) throw new CommandFailed("stopped before the end; nothing was written");
    if (error instanceof StoreRefused || error instanceof StoreUnavailable) throw new CommandFailed(error.message);
    throw error;
  } finally {
    bar.end();
  }
}

async function runBackup(file: string, options: Options, io: Io): Promise<void> {
  const { backUp } = await import("../store/sqlite/backup.ts");
  const report = await onStoreFile(options, io, file, backUp);
  const { bytes, at, audit, tookMs } = report;
  print(io, options, { ...report, at: isoTime(at), audit: { ...audit, at: isoTime(audit.at) } }, () => [
    `${file}: ${bytesText(bytes)} in ${(tookMs / 1000).toFixed(1)} s, the store as of ${isoTime(at)}`,
  ]);
  await printVerdict(audit, options.json === true, io);
}

/** The last line; the offenders, and exit code 1, when the sums do not match. */
export async function printVerdict(audit: Parameters<typeof import("./audit.ts").verdictLine>[0], isJson: boolean, io: Io): Promise<void> {
  const { offenderLines, verdictLine } = await import("./audit.ts");
  if (!isJson) io.out(`audit of the backup: ${verdictLine(audit)}`);
  if (audit.balanced) return;
  for (const line of offenderLines(audit)) io.err(line);
  process.exitCode = 1;
}

export function isoTime(at: number): string {
  return new Date(at).toISOString();
}
