import type { Command } from "commander";
import { printVerdict } from "./audit.ts";
import { isoTime, onStoreFile } from "./backup.ts";
import { bytesText } from "./doctor/finding.ts";
import type { Io } from "./io.ts";
import { givenArgument, withConfigOption } from "./options.ts";
import { print } from "./output.ts";

export function build(command: Command, io: Io): void {
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
  1  nothing changed; or the sums do not match: the backup is in place, and standard error names the rows

Examples:
  wamid-relay restore /backups/relay.db
  wamid-relay restore /backups/relay.db --force --config /etc/wamid-relay/relay.yaml`,
    )
    .action(async (file, options) => {
      const { restore } = await import("../store/sqlite/backup.ts");
      const report = await onStoreFile(options, io, file, restore);
      const { path, bytes, kept, audit, tookMs } = report;
      print(io, options, { ...report, audit: { ...audit, at: isoTime(audit.at) } }, () => [
        `${file} → ${path}: ${bytesText(bytes)} in ${(tookMs / 1000).toFixed(1)} s`,
        ...(kept === null ? [] : [`the store that was there is now ${kept}`]),
        "Events that the relay received after this backup are not in it. Reconciliation finds their statuses for registered messages.",
        "Deliveries made after it are made again, with the same webhook-id: downstream can dedupe them.",
      ]);
      printVerdict(io, options, audit, "audit of the backup: ");
    });
}
