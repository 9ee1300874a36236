import { type Command, InvalidArgumentError, Option } from "commander";
import { auditLines, offenderLines, verdictLine } from "./audit/report.ts";
import { type AuditView, auditSchema, underWaySchema } from "./audit/views.ts";
import type { ControlClient } from "./control-client.ts";
import { readAnswer } from "./control-views.ts";
import type { Io } from "./io.ts";
import { printableJson } from "./printable.ts";
import { createProgressBar } from "./progress-bar.ts";
import { expectDone, type RelayOptions, withReading, withRelayOptions } from "./reach-relay.ts";
import { type TimeOptions, timeFilter, timeOptions } from "./time-options.ts";

interface Options extends RelayOptions, TimeOptions {
  readonly day?: string;
  readonly source?: string;
  readonly json?: boolean;
}

const dayMs = 86_400_000;
/** Seconds that one question waits for the report: progress is shown after each. */
const waitSeconds = 0.5;

/** Adds `audit`: whether everything that was received is accounted for, from the rows themselves. */
export function addAuditCommand(program: Command, io: Io): void {
  const audit = withRelayOptions(program.command("audit"));
  audit
    .description("prove from the rows that every event is accounted for: received = forwarded + filtered + …")
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
    .action((options: Options) => auditNow(audit, options, io));
}

async function auditNow(command: Command, options: Options, io: Io): Promise<void> {
  const { day: from, source, json } = options;
  const times = from === undefined ? timeFilter(options, Date.now()) : { from, to: new Date(Date.parse(from) + dayMs).toISOString() };
  const query = new URLSearchParams({ ...times, ...(source === undefined ? {} : { source }), wait: String(waitSeconds) });
  const report = await withReading(command, options, io, (client) => untilDone(client, `/v1/audit?${query}`, json === true, io));
  if (json === true) io.out(printableJson(report));
  else for (const line of [...auditLines(report), verdictLine(report)]) io.out(line);
  if (report.balanced) return;
  for (const line of offenderLines(report)) io.err(line);
  process.exitCode = 1;
}

async function untilDone(client: ControlClient, path: string, isJson: boolean, io: Io): Promise<AuditView> {
  const bar = createProgressBar(io, isJson);
  for (;;) {
    const answer = await client.request("GET", path);
    const json = expectDone(answer);
    if (answer.status !== 202) {
      bar.end();
      return readAnswer(auditSchema, json);
    }
    const { checked, of } = readAnswer(underWaySchema, json);
    bar.show(of === 0 ? 0 : checked / of, `${checked.toLocaleString("en-US")} of ${of.toLocaleString("en-US")} events`);
  }
}

function day(text: string): string {
  const at = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(at)) throw new InvalidArgumentError("It must be a date, such as 2026-11-20.");
  return new Date(at).toISOString();
}
