import type { Command } from "commander";
import type { AuditProgress, AuditReport, RelayAudit } from "../model/audit.ts";
import type { Io } from "./io.ts";
import { isoTime, timeFilter, withRelayOptions, withTimeOptions } from "./options.ts";
import { counted, print, secondsText, tableLines, withCommas } from "./output.ts";
import { createProgressBar } from "./progress.ts";
import { withRelay } from "./relay.ts";
import { optionOf } from "./typed.ts";

export function build(command: Command, io: Io): void {
  withTimeOptions(
    withRelayOptions(command).addOption(
      optionOf("--day <date>", "received on this day (UTC), such as 2026-11-20", day).conflicts([
        "from",
        "to",
        "since",
      ]),
    ),
  )
    .option("--source <name>", "only from this source")
    .option("--json", "print the report as JSON")
    .addHelpText(
      "after",
      `
A running relay audits its store in a thread; receiving continues. Without a time or source, the audit also checks what
concerns all rows.

Exit codes:
  0  the sums match
  1  the audit failed
  3  the sums do not match, and standard error names the rows

Examples:
  wamid-relay audit
  wamid-relay audit --day 2026-11-20 --source main
  wamid-relay audit --since 2h --json | jq .broken
  15 3 * * * wamid-relay audit --since 26h --config /etc/wamid-relay/relay.yaml > /dev/null     a line of a crontab`,
    )
    .action(async (options) => {
      const { day: from, source, json } = options;
      const times =
        from === undefined
          ? timeFilter(command, options)
          : { from, to: new Date(Date.parse(from) + dayMs).toISOString() };
      const bar = createProgressBar(io, json === true);
      const onProgress = ({ checked, of }: AuditProgress): void => {
        if (of > 0) bar.show(checked / of, `${withCommas(checked)} of ${withCommas(of)} events`);
      };
      const report = await withRelay(command, options, io, "read", (client) =>
        client.audit({ ...times, source, wait: waitSeconds }, { onProgress }),
      );
      bar.end();
      print(io, options, report, auditLines);
      printVerdict(io, options, report);
    });
}

function day(text: string): string {
  return isoTime(text, /^\d{4}-\d{2}-\d{2}$/, "It must be a date, such as 2026-11-20.");
}

const dayMs = 86_400_000;
/** Seconds that one poll waits for the report; progress is shown after each. */
const waitSeconds = 0.5;

export function auditLines({ days, events, routes, deliveries, gone }: RelayAudit): string[] {
  return [
    ...tableLines([...days, { ...events, day: "all", source: "" }], {
      "DAY (UTC)": ({ day }) => day,
      SOURCE: ({ source }) => source,
      ...sumColumns(events),
    }),
    "",
    ...tableLines([...routes, { ...deliveries, route: "all" }], {
      ROUTE: ({ route }) => route,
      ...sumColumns(deliveries),
    }),
    "",
    ...(gone.deleted === 0
      ? []
      : [
          `${withCommas(gone.deleted)} more events were received before, and retention deleted them`,
        ]),
  ];
}

function sumColumns<Word extends string>(sums: Readonly<Record<Word, number>>) {
  const cellOf = (word: Word) => (row: Readonly<Record<Word, number>>) => withCommas(row[word]);
  return Object.fromEntries(
    (Object.keys(sums) as Word[]).map((word) => [word.toUpperCase(), cellOf(word)]),
  );
}

/** An audit by this process, as a relay answers it: ids of events are masked. */
export async function answered(audit: AuditReport): Promise<RelayAudit> {
  const [{ auditSchema }, { maskAnswer, toAnswer }] = await Promise.all([
    import("../model/audit.ts"),
    import("../model/view.ts"),
  ]);
  return maskAnswer(auditSchema, toAnswer(auditSchema, audit));
}

/**
 * Whether the sums match, of how many rows, and how fast. When they do not, the rows on standard
 * error, and exit code 3.
 */
export function printVerdict(
  io: Io,
  { json }: { readonly json?: boolean | undefined },
  audit: Pick<RelayAudit, "balanced" | "broken" | "offenders" | "rows" | "tookMs">,
  of = "",
): void {
  const { balanced, broken, offenders, rows, tookMs } = audit;
  const ms = Math.max(tookMs, 1);
  const looked = `${counted(rows.events, "event")}, ${counted(rows.deliveries, "delivery")} and ${counted(rows.attempts, "attempt")}`;
  const speed = `in ${secondsText(ms)} (${withCommas(Math.round((rows.events * 1000) / ms))} events/s)`;
  const offences = Object.values(broken).reduce((sum, count) => sum + count, 0);
  const verdict = balanced ? "match" : `do not match: ${counted(offences, "offence")}`;
  if (json !== true) io.out(`${of}the sums ${verdict}; ${looked} ${speed}`);
  if (balanced) return;
  for (const { rule, event, eventId, route, what } of offenders) {
    const id = eventId === null ? "" : ` (${eventId})`;
    io.err(
      `${rule}: ${event === null ? "" : `event ${event}${id}: `}${route === null ? "" : `route ${route}: `}${what}`,
    );
  }
  for (const [rule, count] of Object.entries(broken))
    io.err(`${rule}: ${withCommas(count)} in all`);
  process.exitCode = 3;
}
