import type { RelayDelivery, RelayEventDetail } from "../client/relay-client.ts";
import { type AttemptError, isOutage } from "../model/delivery.ts";
import { giveUpText, requestText, verdictText } from "../model/words.ts";
import { counted, timeText } from "./output.ts";

type EventDetail = RelayEventDetail;
type Hydration = NonNullable<EventDetail["hydration"]>;

/** Most lines of a downstream's answer that are shown. */
const responseLines = 5;

/** Everything about one event, for a person. */
export function eventLines(event: EventDetail, isMasked: boolean): string[] {
  const { subject } = event;
  const about = subject === null ? "no message or run" : `${subject.type} ${subject.key}`;
  return [
    heading(`event ${event.id ?? "(quarantined: no id)"}`),
    field("seq", String(event.seq)),
    field("kind", event.event ?? "(none)"),
    field("account", event.account),
    field("source", event.source),
    field("disposition", event.disposition),
    ...(event.fault === null ? [] : [field("why", event.fault)]),
    ...(event.releasedAs === null ? [] : [field("released as", `event ${event.releasedAs}`)]),
    ...(event.releasedFrom === null ? [] : [field("released from", `quarantine, event ${event.releasedFrom}`)]),
    ...(event.parkedUntil === null ? [] : [field("parked until", utc(event.parkedUntil))]),
    "",
    heading("received"),
    field("at", utc(event.receivedAt)),
    ...(event.createdAt === null ? [] : [field("created at", utc(event.createdAt))]),
    field("origin", event.origin),
    field(
      "verified by",
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
    ...(event.request === null
      ? []
      : [
          field("event", `${requestText(event.request)} of ${event.request.bytes} bytes`),
          field("the others", `wamid-relay events list --request ${event.request.digest}`),
        ]),
    "",
    heading("tracking"),
    field("about", about),
    field("status", movement(event)),
    ...(event.errorCode === null ? [] : [field("error code", event.errorCode)]),
    "",
    ...(event.hydration === null ? [] : hydrationLines(event.hydration)),
    heading("routes"),
    ...(event.routes.length === 0 ? ["  none"] : event.routes.map(verdictLine)),
    "",
    heading("deliveries"),
    ...(event.deliveries.length === 0 ? ["  none"] : event.deliveries.flatMap(deliveryLines)),
    "",
    heading(isMasked ? "body (masked; --show-pii shows it, --body prints the bytes received)" : "body"),
    ...bodyLines(event, isMasked),
  ];
}

export function movement(event: Pick<EventDetail, "status" | "previousStatus" | "transition">): string {
  const { status, previousStatus, transition } = event;
  const before = previousStatus ?? "unknown";
  if (status === null) return previousStatus === null ? "none" : `stays ${before}`;
  return transition ? `${before} → ${status} (a transition)` : `stays ${before}, although ${status} was reported (no transition)`;
}

export function verdictLine(verdict: EventDetail["routes"][number]): string {
  return `  ${verdict.route}: ${verdictText(verdict)}`;
}

function deliveryLines(delivery: EventDetail["deliveries"][number]): string[] {
  const replays = delivery.replays === 0 ? "" : `, replayed ${counted(delivery.replays, "time")}`;
  return [
    `  ${delivery.route}: ${deliveryState(delivery)}`,
    `    id ${delivery.id}, ${counted(delivery.attempts, "attempt")}${replays}`,
    ...delivery.attemptHistory.flatMap((each) => {
      return [
        `    ${each.number}. ${timeText(each.at)} ${attemptText(each.status, each.error)} in ${each.tookMs} ms`,
        ...shortened(each.response === null ? [] : each.response.split(/\r?\n/)),
      ];
    }),
  ];
}

function deliveryState({ state, reason, nextAt, settledAt }: RelayDelivery): string {
  if (state === "waiting") return nextAt === null ? "waiting" : `waiting, next attempt ${utc(nextAt)}`;
  if (state === "held") return "held behind an earlier delivery of its message";
  return `${state} ${settledAt === null ? "" : utc(settledAt)}${reason === null ? "" : `: ${reason}`}`;
}

function shortened(lines: readonly string[]): string[] {
  const shown = lines.slice(0, responseLines).map((line) => `       | ${line.slice(0, 200)}`);
  return lines.length > responseLines ? [...shown, `       | … ${lines.length - responseLines} more lines`] : shown;
}

function bodyLines(event: EventDetail, isMasked: boolean): string[] {
  if (event.text === null) return [`  not UTF-8, ${event.size} bytes; --body prints them`];
  // Masked, it is no longer the bytes that came, but JSON unless it begins with a bracket.
  const text = isMasked && !event.text.startsWith("[body") ? JSON.stringify(JSON.parse(event.text), null, 2) : event.text;
  return text.split(/\r?\n/).map((line) => `  ${line}`);
}

function heading(text: string): string {
  return text;
}

function field(name: string, value: string): string {
  return `  ${name.padEnd(12)} ${value}`;
}

function utc(iso: string): string {
  return `${timeText(iso)} UTC`;
}

/** Most news or runs that are listed. */
const mostListed = 10;

/** What became of an event that came without its data, for a person. */
export function hydrationLines(hydration: Hydration): string[] {
  const { state, reason, polled, found, foundCount, unknown, candidates, settledAt } = hydration;
  const ended = settledAt === null ? "" : ` ${timeText(settledAt)} UTC`;
  return [
    "hydration (its data was truncated)",
    field("state", `${state}${ended}${reason === null ? "" : `: ${giveUpText(reason)}`}`),
    field("polled", `${polled} messages`),
    field("found", foundCount === 0 ? "nothing" : `${foundCount} changes, each as an event`),
    ...listed(
      found.map(({ seq, wamid, status }) => `${seq}: ${wamid ?? "a message"} ${status ?? ""}`),
      foundCount,
    ),
    field("unknown", unknown === null ? "not counted" : unknown === 0 ? "nothing" : `${unknown} candidates were not read`),
    ...(candidates === null ? [] : candidateLines(candidates)),
    "",
  ];
}

function candidateLines(candidates: NonNullable<Hydration["candidates"]>): string[] {
  if (candidates.length === 0) return [field("could be", "no run that is open")];
  return [
    field("could be", "one of these open runs"),
    ...listed(
      candidates.map(({ runId, reference }) => `${runId}${reference === null ? "" : ` (${reference})`}`),
      candidates.length,
    ),
  ];
}

function listed(lines: readonly string[], count: number): string[] {
  const shown = lines.slice(0, mostListed).map((line) => `    ${line}`);
  return count > shown.length ? [...shown, `    … ${count - shown.length} more`] : shown;
}

/** The outcome of an attempt in a few words: `answered 503`, `accepted`, `no answer: timeout`, `not accepted: full`. */
export function attemptText(status: number | null, error: string | null): string {
  if (status !== null) return `answered ${status}`;
  if (error === null) return "accepted";
  if (error === "rejected") return "answered 2xx, but failIfBody matches its body";
  return error === "refused" || isOutage(error as AttemptError) ? `not accepted: ${error}` : `no answer: ${error}`;
}
