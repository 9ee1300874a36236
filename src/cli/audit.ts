import { type Command, InvalidArgumentError, Option } from "commander";
import type { Io } from "./io.ts";
import { type RelayOptions, type TimeOptions, timeOptions, withRelayOptions } from "./options.ts";

export interface AuditOptions extends RelayOptions, TimeOptions {
  readonly day?: string;
  readonly source?: string;
  readonly json?: boolean;
}

/** Adds `audit`: whether everything that was received is accounted for, from the rows themselves. */
export function addAuditCommand(program: Command, io: Io): void {
  const audit = withRelayOptions(program.command("audit"));
  audit
    .description("prove from the rows that every event is accounted for: received = routed + filtered + …")
    .addOption(
      new Option("--day <date>", "received on this day (UTC), such as 2026-11-20").argParser(day).conflicts(["from", "to", "since"]),
    );
  for (const option of timeOptions()) audit.addOption(option);
  audit
    .option("--source <name>", "from this source only")
    .option("--json", "print the report as JSON")
    .addHelpText(
      "after",
      `
Exit code 0: the sums match. 1: they do not, and the offenders are on standard error; or it could not be done.
A relay that runs goes on receiving meanwhile. Without a time or source, what concerns all rows is looked at too.

Examples:
  wamid-relay audit
  wamid-relay audit --day 2026-11-20 --source main
  wamid-relay audit --since 2h --json | jq .broken
  15 3 * * * wamid-relay audit --since 26h --config /etc/wamid-relay/relay.yaml     (a line of a crontab)`,
    )
    .action(async (options: AuditOptions) => {
      const { runAudit } = await import("./audit-run.ts");
      await runAudit(audit, options, io);
    });
}

function day(text: string): string {
  const at = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(at)) throw new InvalidArgumentError("It must be a date, such as 2026-11-20.");
  return new Date(at).toISOString();
}
