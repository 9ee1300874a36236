import type { Command } from "commander";
import type { AuditOptions } from "../audit-command.ts";
import type { ControlClient } from "../control-client.ts";
import { readAnswer } from "../control-views.ts";
import type { Io } from "../io.ts";
import { printableJson } from "../output.ts";
import { createProgressBar } from "../progress.ts";
import { expectDone, timeFilter, withReading } from "../reach-relay.ts";
import { auditLines, offenderLines, verdictLine } from "./report.ts";
import { type AuditView, auditSchema, underWaySchema } from "./views.ts";

const dayMs = 86_400_000;
/** Seconds that one question waits for the report: progress is shown after each. */
const waitSeconds = 0.5;

/** Asks until the audit is done, and prints what it found. Exit code 1 when the sums do not match. */
export async function runAudit(command: Command, options: AuditOptions, io: Io): Promise<void> {
  const { day: from, source, json } = options;
  const times =
    from === undefined ? timeFilter(command, options, Date.now()) : { from, to: new Date(Date.parse(from) + dayMs).toISOString() };
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
