import type { Command } from "commander";
import { z } from "zod";
import { screenId } from "../model/mask.ts";
import type { AuditOptions } from "./audit.ts";
import type { ControlClient } from "./control-client.ts";
import { readAnswer } from "./control-views.ts";
import type { Io } from "./io.ts";
import { printable, printableJson, tableLines, withCommas } from "./output.ts";
import { createProgressBar } from "./progress.ts";
import { expectDone, timeFilter, withReading } from "./reach-relay.ts";

const dayMs = 86_400_000;
/** Seconds that one poll waits for the report; progress is shown after each. */
const waitSeconds = 0.5;

/** Polls until the audit is done and prints the report. Exit code 1 when the sums do not match. */
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
    bar.show(of === 0 ? 0 : checked / of, `${withCommas(checked)} of ${withCommas(of)} events`);
  }
}

const eventWords = ["received", "routed", "filtered", "ignored", "quarantined", "released", "parked", "accepted", "unaccounted"] as const;
const deliveryWords = ["planned", "delivered", "dead", "waiting", "held", "swept", "unaccounted"] as const;

/** Two tables whose rows must add up: events received, and deliveries planned. */
export function auditLines({ days, events, routes, deliveries, gone }: AuditView): string[] {
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
    ...(events.accepted === 0
      ? []
      : [`${withCommas(events.accepted)} events are accepted and wait for a process with role work (or both) to plan them`]),
    ...(gone.swept === 0 ? [] : [`${withCommas(gone.swept)} more events were received before, and retention took them away`]),
  ];
}

/** The last line: whether the sums match, of how many rows, and how fast. */
export function verdictLine({ balanced, broken, rows, tookMs }: AuditView): string {
  const seconds = Math.max(tookMs, 1) / 1000;
  const looked = `${withCommas(rows.events)} events, ${withCommas(rows.deliveries)} deliveries and ${withCommas(rows.attempts)} attempts`;
  const speed = `in ${seconds.toFixed(1)} s (${withCommas(Math.round(rows.events / seconds))} events/s)`;
  const offences = Object.values(broken).reduce((sum, count) => sum + count, 0);
  return `the sums ${balanced ? "match" : `do not match: ${withCommas(offences)} offences`}; ${looked} ${speed}`;
}

/** One line per offender, then the total per rule. */
export function offenderLines({ broken, offenders }: AuditView): string[] {
  const named = new Map<string, number>();
  const lines = offenders.map(({ rule, event, eventId, route, what }) => {
    named.set(rule, (named.get(rule) ?? 0) + 1);
    const who = [
      event === null ? null : `event ${event}${eventId === null ? "" : ` (${screenId("event", eventId)})`}`,
      route === null ? null : `route ${route}`,
    ].filter((part) => part !== null);
    return printable(`${rule}: ${[...who, what].join(": ")}`);
  });
  const totals = Object.entries(broken).map(([rule, count]) => printable(`${rule}: ${withCommas(count)} in all`));
  return [...lines, ...totals];
}

const events = {
  received: z.number(),
  routed: z.number(),
  filtered: z.number(),
  ignored: z.number(),
  quarantined: z.number(),
  parked: z.number(),
  // An older relay does not return these.
  released: z.number().default(0),
  accepted: z.number().default(0),
  unaccounted: z.number(),
  duplicates: z.number(),
  conflicts: z.number(),
};
const deliveries = {
  planned: z.number(),
  waiting: z.number(),
  held: z.number(),
  delivered: z.number(),
  dead: z.number(),
  swept: z.number(),
  unaccounted: z.number(),
};

const underWaySchema = z.looseObject({ checked: z.number(), of: z.number() });

export const auditSchema = z.looseObject({
  balanced: z.boolean(),
  at: z.string(),
  tookMs: z.number(),
  rows: z.looseObject({ events: z.number(), deliveries: z.number(), attempts: z.number() }),
  events: z.looseObject(events),
  days: z.array(z.looseObject({ day: z.string(), source: z.string(), ...events })),
  deliveries: z.looseObject(deliveries),
  routes: z.array(z.looseObject({ route: z.string(), ...deliveries })),
  gone: z.looseObject({ swept: z.number(), missing: z.number() }),
  broken: z.record(z.string(), z.number()),
  offenders: z.array(
    z.looseObject({
      rule: z.string(),
      event: z.number().nullable(),
      eventId: z.string().nullable(),
      route: z.string().nullable(),
      what: z.string(),
    }),
  ),
});
type AuditView = z.infer<typeof auditSchema>;
