import { screenId } from "../../event/mask.ts";
import { printable, tableLines } from "../output.ts";
import type { AuditView } from "./views.ts";

const eventWords = [
  "received",
  "forwarded",
  "filtered",
  "ignored",
  "quarantined",
  "released",
  "parked",
  "accepted",
  "unaccounted",
] as const;
const deliveryWords = ["planned", "delivered", "dead", "waiting", "held", "swept", "unaccounted"] as const;

const grouped = (value: number) => value.toLocaleString("en-US");

/** Two sums, each line of which is to add up: what was received, and what was planned. */
export function auditLines({ days, events, routes, deliveries, gone }: AuditView): string[] {
  const cells = (sums: Readonly<Record<(typeof eventWords)[number] | "duplicates", number>>) =>
    [...eventWords, "duplicates" as const].map((word) => grouped(sums[word]));
  const states = (sums: Readonly<Record<(typeof deliveryWords)[number], number>>) => deliveryWords.map((word) => grouped(sums[word]));
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
      : [`${grouped(events.accepted)} events are accepted and wait for a process with role work (or both) to plan them`]),
    ...(gone.swept === 0 ? [] : [`${grouped(gone.swept)} more events were received before, and retention took them away`]),
  ];
}

/** What is said last of all: whether the sums match, of how much, and how fast. */
export function verdictLine({ balanced, broken, rows, tookMs }: AuditView): string {
  const seconds = Math.max(tookMs, 1) / 1000;
  const looked = `${grouped(rows.events)} events, ${grouped(rows.deliveries)} deliveries and ${grouped(rows.attempts)} attempts`;
  const speed = `in ${seconds.toFixed(1)} s (${grouped(Math.round(rows.events / seconds))} events/s)`;
  const offences = Object.values(broken).reduce((sum, count) => sum + count, 0);
  return `the sums ${balanced ? "match" : `do not match: ${grouped(offences)} offences`}; ${looked} ${speed}`;
}

/** Who breaks which rule, a line each, and how many more there are. */
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
  const totals = Object.entries(broken).map(([rule, count]) => printable(`${rule}: ${grouped(count)} in all`));
  return [...lines, ...totals];
}
