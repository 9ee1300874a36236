import type { Command } from "commander";
import type { AuditReport } from "../model/audit.ts";
import type { BackupOrder } from "../store/sqlite/backup.ts";
import { answered, printVerdict } from "./audit.ts";
import { CommandFailed, type Io, stopSignal } from "./io.ts";
import { givenArgument, type SettingsOptions, withConfigOption } from "./options.ts";
import { bytesText, print, secondsText, withCommas } from "./output.ts";
import { createProgressBar } from "./progress.ts";

export function build(command: Command, io: Io): void {
  withConfigOption(command)
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
  1  there is no backup
  3  there is one, but its sums do not match, and standard error names the rows

Examples:
  wamid-relay backup /backups/relay.db
  wamid-relay backup /backups/relay.db --force --config /etc/wamid-relay/relay.yaml
  wamid-relay backup /backups/relay.db --force --json | jq .audit.balanced`,
    )
    .action(async (file, options) => {
      const { backUp } = await import("../store/sqlite/backup.ts");
      const report = await onStoreFile(options, io, file, backUp);
      const at = new Date(report.at).toISOString();
      print(io, options, { ...report, at }, ({ bytes, tookMs }) => [
        `${file}: ${bytesText(bytes)} in ${secondsText(tookMs)}, the store as of ${at}`,
      ]);
      printVerdict(io, options, report.audit, "audit of the backup: ");
    });
}

export function buildRestore(command: Command, io: Io): void {
  withConfigOption(command)
    .argument("<file>", "the backup", givenArgument)
    .option("--force", "replace an existing store, which is kept as <store>.before-restore-<time>")
    .option("--json", "print {path, bytes, kept, audit, tookMs} as JSON")
    .addHelpText(
      "after",
      `
Stop the relay first. The command copies the backup, checks every table and row of the copy, and then replaces the store
in one step. Deliveries since the backup may go out again, with the same webhook-id.

Exit codes:
  0  the backup is the store now
  1  nothing changed
  3  the backup is in place, but its sums do not match, and standard error names the rows

Examples:
  wamid-relay restore /backups/relay.db
  wamid-relay restore /backups/relay.db --force --config /etc/wamid-relay/relay.yaml`,
    )
    .action(async (file, options) => {
      const { restore } = await import("../store/sqlite/backup.ts");
      const report = await onStoreFile(options, io, file, restore);
      print(io, options, report, ({ path, bytes, kept, tookMs }) => [
        `${file} → ${path}: ${bytesText(bytes)} in ${secondsText(tookMs)}`,
        ...(kept === null ? [] : [`the store that was there is now ${kept}`]),
        "Events that the relay received after this backup are not in it. Reconciliation finds their statuses for registered messages.",
        "Deliveries made after it are made again, with the same webhook-id: downstream can dedupe them.",
      ]);
      printVerdict(io, options, report.audit, "audit of the backup: ");
    });
}

async function onStoreFile<Report extends { readonly audit: AuditReport }>(
  options: SettingsOptions & {
    readonly force?: boolean | undefined;
    readonly json?: boolean | undefined;
  },
  io: Io,
  file: string,
  act: (order: BackupOrder) => Promise<Report>,
) {
  const { readPart } = await import("./settings-option.ts");
  const storage = readPart("storage", options, io);
  if (storage.driver !== "sqlite") {
    throw new CommandFailed(
      `${options.config} has storage.driver ${storage.driver}: back up that server itself, as docs/how-to/back-up-and-restore.md describes`,
    );
  }
  const bar = createProgressBar(io, options.json === true);
  const signal = stopSignal();
  try {
    const { audit, ...report } = await act({
      path: storage.path,
      file,
      replace: options.force === true,
      now: Date.now,
      signal,
      progress(step, { checked, of }) {
        const unit = step === "copying" ? "pages" : "events";
        if (step === "checking") bar.show(null, "checking every table");
        else
          bar.show(
            of === 0 ? 0 : checked / of,
            `${step}: ${withCommas(checked)} of ${withCommas(of)} ${unit}`,
          );
      },
    });
    return { ...report, audit: await answered(audit) };
  } catch (error) {
    if (signal.aborted) throw new CommandFailed("stopped before the end; nothing was written");
    throw error;
  } finally {
    bar.end();
  }
}
