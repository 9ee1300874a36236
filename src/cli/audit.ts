import { type Command, InvalidArgumentError } from "commander";
import type { AuditProgress, AuditReport, Offender, RelayAudit } from "../model/audit.ts";
import type { Io } from "./io.ts";
import { withRelayOptions, withTimeOptions } from "./options.ts";
import { print, tableLines, withCommas } from "./output.ts";
import { createProgressBar } from "./progress.ts";
import { type OptionsOf, optionOf } from "./typed.ts";

/** What a report of the relay and one of this process have in common. */
type Verdict = Pick<AuditReport, "balanced" | "rows" | "tookMs"> & {
  readonly broken: Readonly<Record<string, number>>;
  readonly offenders: readonly (Omit<Offender, "rule"> & { readonly rule: string })[];
};

/** Adds `audit`: whether everything that was received is accounted for, from the rows themselves. */
export function build(command: Command, io: Io): void {
  declare(command).action((options) => audit(command, options, io));
}

type Options = OptionsOf<typeof declare>;

function declare(command: Command) {
  return withTimeOptions(
    withRelayOptions(command).addOption(
      optionOf("--day <date>", "received on this day (UTC), such as 2026-11-20", day).conflicts(["from", "to", "since"]),
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
  1  they do not, and standard error names the rows; or the audit failed

Examples:
  wamid-relay audit
  wamid-relay audit --day 2026-11-20 --source main
  wamid-relay audit --since 2h --json | jq .broken
  15 3 * * * wamid-relay audit --since 26h --config /etc/wamid-relay/relay.yaml     a line of a crontab`,
    );
}

function day(text: string): string {
  const at = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(at)) throw new InvalidArgumentError("It must be a date, such as 2026-11-20.");
  return new Date(at).toISOString();
}

const dayMs = 86_400_000;
/** Seconds that one poll waits for the report; progress is shown after each. */
const waitSeconds = 0.5;

/** Polls until the audit is done and prints the report. Exit code 1 when the sums do not match. */
async function audit(command: Command, options: Options, io: Io): Promise<void> {
  const { timeFilter, withRelay } = await import("./reach-relay.ts");
  const { day: from, source, json } = options;
  const times =
    from === undefined ? timeFilter(command, options, Date.now()) : { from, to: new Date(Date.parse(from) + dayMs).toISOString() };
  const bar = createProgressBar(io, json === true);
  const onProgress = ({ checked, of }: AuditProgress) =>
    bar.show(of === 0 ? 0 : checked / of, `${withCommas(checked)} of ${withCommas(of)} events`);
  const range = { ...times, source, wait: waitSeconds };
  const report = await withRelay(command, options, io, "read", (client) => client.audit(range, { onProgress }));
  bar.end();
  print(io, options, report, () => [...auditLines(report), verdictLine(report)]);
  if (report.balanced) return;
  for (const line of offenderLines(report)) io.err(line);
  process.exitCode = 1;
}

const eventWords = ["received", "routed", "filtered", "ignored", "quarantined", "released", "parked", "unassigned", "unaccounted"] as const;
const deliveryWords = ["planned", "delivered", "dead", "waiting", "held", "deleted", "unaccounted"] as const;

/** Two tables whose rows must add up: events received, and deliveries planned. */
export function auditLines({ days, events, routes, deliveries, gone }: RelayAudit): string[] {
  const cells = (sums: Readonly<Record<(typeof eventWords)[number] | "duplicates", number>>) =>
    [...eventWords, "duplicates" as const].map((word) => withCommas(sums[word]));
  const states = (sums: Readonly<Record<(typeof deliveryWords)[number], number>>) => deliveryWords.map((word) => withCommas(sums[word]));
  const upper = (words: readonly string[]) => words.map((word) => word.toUpperCase());
  return [
    ...tableLines(
      ["DAY (UTC)", "SOURCE", ...upper(eventWords), "DUPLICATES"],
      [...days.map((day) => [day.day, day.source, ...cells(day)]), ["all", "", ...cells(events)]],
    ),
    "",
    ...tableLines(
      ["ROUTE", ...upper(deliveryWords)],
      [...routes.map((route) => [route.route, ...states(route)]), ["all", ...states(deliveries)]],
    ),
    "",
    ...(gone.deleted === 0 ? [] : [`${withCommas(gone.deleted)} more events were received before, and retention deleted them`]),
  ];
}

/** The last line: whether the sums match, of how many rows, and how fast. */
export function verdictLine({ balanced, broken, rows, tookMs }: Verdict): string {
  const seconds = Math.max(tookMs, 1) / 1000;
  const looked = `${withCommas(rows.events)} events, ${withCommas(rows.deliveries)} deliveries and ${withCommas(rows.attempts)} attempts`;
  const speed = `in ${seconds.toFixed(1)} s (${withCommas(Math.round(rows.events / seconds))} events/s)`;
  const offences = Object.values(broken).reduce((sum, count) => sum + count, 0);
  return `the sums ${balanced ? "match" : `do not match: ${withCommas(offences)} offences`}; ${looked} ${speed}`;
}

/** One line per offender, then the total per rule. */
export function offenderLines({ broken, offenders }: Verdict): string[] {
  const named = new Map<string, number>();
  const lines = offenders.map(({ rule, event, eventId, route, what }) => {
    named.set(rule, (named.get(rule) ?? 0) + 1);
    const who = [
      event === null ? null : `event ${event}${eventId === null ? "" : ` (${eventId})`}`,
      route === null ? null : `route ${route}`,
    ].filter((part) => part !== null);
    return `${rule}: ${[...who, what].join(": ")}`;
  });
  const totals = Object.entries(broken).map(([rule, count]) => `${rule}: ${withCommas(count)} in all`);
  return [...lines, ...totals];
}
