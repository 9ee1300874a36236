import { attemptText, responseText } from "./attempt-text.ts";
import type { ShownDelivery, ShownEventDetail } from "./control-views.ts";
import { hydrationLines } from "./hydration-report.ts";
import { printable, printableLines } from "./printable.ts";
import type { PrivateView } from "./private-view.ts";
import { timeText } from "./time-options.ts";

/** Most lines of a downstream's answer that are shown. */
const responseLines = 5;

/** Who makes something of an event that was only accepted. */
export const planner = "a process with role work (or both)";

/** Everything about one event, for a person. */
export function eventLines(event: ShownEventDetail, view: PrivateView): string[] {
  const { subject } = event;
  const wamid = subject?.type === "message" ? subject.key : null;
  const about = subject === null ? "nothing that is tracked" : `${subject.type} ${view.subject(subject)}`;
  return [
    heading(`event ${event.id === null ? "(quarantined: no id)" : view.id("event", event.id)}`),
    field("seq", String(event.seq)),
    field("kind", event.event === null ? "(none)" : view.text(event.event)),
    field("account", event.account),
    field("source", event.source),
    field("disposition", event.disposition),
    ...(event.fault === null ? [] : [field("why", view.text(event.fault))]),
    ...(event.releasedAs === null ? [] : [field("released as", `event ${event.releasedAs}`)]),
    ...(event.releasedFrom === null ? [] : [field("released from", `quarantine, event ${event.releasedFrom}`)]),
    ...(event.disposition === "accepted" ? [field("waits for", `${planner} to plan it`)] : []),
    ...(event.parkedUntil === null ? [] : [field("parked until", utc(event.parkedUntil))]),
    "",
    heading("received"),
    field("at", utc(event.receivedAt)),
    ...(event.createdAt === null ? [] : [field("created at", utc(event.createdAt))]),
    field("origin", event.origin),
    field(
      "proved by",
      event.releasedFrom !== null
        ? `the secret of event ${event.releasedFrom}`
        : event.secret === null
          ? "no secret (made by the relay)"
          : `secret ${event.secret} (fingerprint)`,
    ),
    field(
      "duplicates",
      event.conflicts === 0 ? String(event.duplicates) : `${event.duplicates}, ${event.conflicts} of them with other bytes`,
    ),
    field("size", `${event.size} bytes`),
    "",
    heading("tracking"),
    field("about", about),
    field("status", movement(event, view)),
    ...(event.errorCode === null ? [] : [field("error code", view.text(event.errorCode))]),
    "",
    ...(event.hydration === null ? [] : hydrationLines(event.hydration, view)),
    heading("routes"),
    ...(event.routes.length === 0
      ? [event.disposition === "accepted" ? "  none has judged it yet" : "  none judged it"]
      : event.routes.map(verdictLine)),
    "",
    heading("deliveries"),
    ...(event.deliveries.length === 0 ? ["  none"] : event.deliveries.flatMap((delivery) => deliveryLines(delivery, view))),
    "",
    heading(view.isMasked ? "body (masked; --show-pii shows it, --body prints the very bytes)" : "body"),
    ...bodyLines(event, view, wamid),
  ];
}

export function movement(
  event: Pick<ShownEventDetail, "status" | "previousStatus" | "transition" | "disposition">,
  view: PrivateView,
): string {
  const { previousStatus, transition, disposition } = event;
  const status = event.status === null ? null : view.text(event.status);
  const before = previousStatus === null ? "unknown" : view.text(previousStatus);
  if (disposition === "accepted") return `${status === null ? "" : `${status} came; `}what it moves is known once it is planned`;
  if (status === null) return previousStatus === null ? "none" : `stays ${before}`;
  return transition ? `${before} → ${status} (a transition)` : `${status} came, stays ${before} (no transition)`;
}

export function verdictLine({ route, verdict, reason }: ShownEventDetail["routes"][number]): string {
  const words: Record<string, string> = { deliver: "delivers", park: "holds it back (parked)", skip: "does not match" };
  if (reason === "hydrated") return `  ${printable(route)}: got the news found by asking instead`;
  return `  ${printable(route)}: ${words[verdict] ?? printable(verdict)}${reason === undefined ? "" : `: ${printable(reason)}`}`;
}

function deliveryLines(delivery: ShownEventDetail["deliveries"][number], view: PrivateView): string[] {
  const replays = delivery.replays === 0 ? "" : `, sent again ${delivery.replays} times`;
  return [
    `  ${printable(delivery.route)}: ${deliveryState(delivery)}`,
    `    id ${printable(view.delivery(delivery.id))}, ${delivery.attempts} attempts${replays}`,
    ...delivery.tries.flatMap((each) => {
      const response = responseText(each, view);
      return [
        `    ${each.number}. ${timeText(each.at)} ${printable(attemptText(each.status, each.error))} in ${each.tookMs} ms`,
        ...shortened(response === "" ? [] : printableLines(response)),
      ];
    }),
  ];
}

function deliveryState({ state, reason, nextAt, settledAt }: ShownDelivery): string {
  if (state === "waiting") return nextAt === null ? "waiting" : `waiting, next attempt ${utc(nextAt)}`;
  if (state === "held") return "held behind an earlier one of its message";
  return `${printable(state)} ${settledAt === null ? "" : utc(settledAt)}${reason === null ? "" : `: ${printable(reason)}`}`;
}

function shortened(lines: readonly string[]): string[] {
  const shown = lines.slice(0, responseLines).map((line) => `       | ${line.slice(0, 200)}`);
  return lines.length > responseLines ? [...shown, `       | … ${lines.length - responseLines} more lines`] : shown;
}

function bodyLines(event: ShownEventDetail, view: PrivateView, wamid: string | null): string[] {
  if (event.text === null) return [`  not UTF-8, ${event.size} bytes; --body prints them`];
  return printableLines(view.body(event.text, wamid)).map((line) => `  ${line}`);
}

function heading(text: string): string {
  return printable(text);
}

function field(name: string, value: string): string {
  return `  ${name.padEnd(12)} ${printable(value)}`;
}

function utc(iso: string): string {
  return `${timeText(iso)} UTC`;
}
