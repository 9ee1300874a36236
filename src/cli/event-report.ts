import { type AttemptError, isOutage } from "../model/delivery.ts";
import type { Answer } from "./answers.ts";
import { counted, type PrivateView, printable, printableLines, timeText } from "./output.ts";

type EventDetail = Answer<"eventDetail">;
type Hydration = NonNullable<EventDetail["hydration"]>;

/** Most lines of a downstream's answer that are shown. */
const responseLines = 5;

/** The process that plans accepted events. */
export const planner = "a process with role work (or both)";

/** Everything about one event, for a person. */
export function eventLines(event: EventDetail, view: PrivateView): string[] {
  const { subject } = event;
  const wamid = subject?.type === "message" ? subject.key : null;
  const about = subject === null ? "no message or run" : `${subject.type} ${view.subject(subject)}`;
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
    "",
    heading("tracking"),
    field("about", about),
    field("status", movement(event, view)),
    ...(event.errorCode === null ? [] : [field("error code", view.text(event.errorCode))]),
    "",
    ...(event.hydration === null ? [] : hydrationLines(event.hydration, view)),
    heading("routes"),
    ...(event.routes.length === 0 ? [event.disposition === "accepted" ? "  not planned yet" : "  none"] : event.routes.map(verdictLine)),
    "",
    heading("deliveries"),
    ...(event.deliveries.length === 0 ? ["  none"] : event.deliveries.flatMap((delivery) => deliveryLines(delivery, view))),
    "",
    heading(view.isMasked ? "body (masked; --show-pii shows it, --body prints the bytes received)" : "body"),
    ...bodyLines(event, view, wamid),
  ];
}

export function movement(event: Pick<EventDetail, "status" | "previousStatus" | "transition" | "disposition">, view: PrivateView): string {
  const { previousStatus, transition, disposition } = event;
  const status = event.status === null ? null : view.text(event.status);
  const before = previousStatus === null ? "unknown" : view.text(previousStatus);
  if (disposition === "accepted") return `${status === null ? "" : `${status}; `}tracked once it is planned`;
  if (status === null) return previousStatus === null ? "none" : `stays ${before}`;
  return transition ? `${before} → ${status} (a transition)` : `stays ${before}, although ${status} was reported (no transition)`;
}

export function verdictLine({ route, verdict, reason }: EventDetail["routes"][number]): string {
  const words: Record<string, string> = { deliver: "delivers", park: "waits (parked)", skip: "does not match" };
  if (reason === "hydrated") return `  ${printable(route)}: got the changes found by polling instead`;
  return `  ${printable(route)}: ${words[verdict] ?? printable(verdict)}${reason === undefined ? "" : `: ${printable(reason)}`}`;
}

function deliveryLines(delivery: EventDetail["deliveries"][number], view: PrivateView): string[] {
  const replays = delivery.replays === 0 ? "" : `, replayed ${counted(delivery.replays, "time")}`;
  return [
    `  ${printable(delivery.route)}: ${deliveryState(delivery)}`,
    `    id ${printable(view.delivery(delivery.id))}, ${counted(delivery.attempts, "attempt")}${replays}`,
    ...delivery.tries.flatMap((each) => {
      const response = responseText(each, view);
      return [
        `    ${each.number}. ${timeText(each.at)} ${printable(attemptText(each.status, each.error))} in ${each.tookMs} ms`,
        ...shortened(response === "" ? [] : printableLines(response)),
      ];
    }),
  ];
}

function deliveryState({ state, reason, nextAt, settledAt }: Answer<"delivery">): string {
  if (state === "waiting") return nextAt === null ? "waiting" : `waiting, next attempt ${utc(nextAt)}`;
  if (state === "held") return "held behind an earlier delivery of its message";
  return `${printable(state)} ${settledAt === null ? "" : utc(settledAt)}${reason === null ? "" : `: ${printable(reason)}`}`;
}

function shortened(lines: readonly string[]): string[] {
  const shown = lines.slice(0, responseLines).map((line) => `       | ${line.slice(0, 200)}`);
  return lines.length > responseLines ? [...shown, `       | … ${lines.length - responseLines} more lines`] : shown;
}

function bodyLines(event: EventDetail, view: PrivateView, wamid: string | null): string[] {
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

/** Most news or runs that are listed. */
const mostListed = 10;

const reasons: Record<string, string> = {
  "not-readable": "the service's API has no way to read what it was about",
  "no-key": "the account has no baseUrl and apiKey in the settings",
  "too-long": "hydrate.giveUpAfter was over; the rest is left to reconciliation",
};

/** What became of an event that came without its data, for a person. */
export function hydrationLines(hydration: Hydration, view: PrivateView): string[] {
  const { state, reason, asked, found, foundCount, unknown, candidates, settledAt } = hydration;
  const ended = settledAt === null ? "" : ` ${timeText(settledAt)} UTC`;
  return [
    "hydration (its data was truncated)",
    field("state", `${state}${ended}${reason === null ? "" : `: ${reasons[reason] ?? reason}`}`),
    field("polled", `${asked} messages`),
    field("found", foundCount === 0 ? "nothing" : `${foundCount} changes, each as an event`),
    ...listed(
      found.map(
        ({ seq, wamid, status }) =>
          `${seq}: ${wamid === null ? "a message" : view.subject({ type: "message", key: wamid })} ${status === null ? "" : view.text(status)}`,
      ),
      foundCount,
    ),
    field("unknown", unknown === null ? "not counted" : unknown === 0 ? "nothing" : `${unknown} candidates were not read`),
    ...(candidates === null ? [] : candidateLines(candidates, view)),
    "",
  ];
}

function candidateLines(candidates: NonNullable<Hydration["candidates"]>, view: PrivateView): string[] {
  if (candidates.length === 0) return [field("could be", "no run that is open")];
  return [
    field("could be", "one of these open runs"),
    ...listed(
      candidates.map(({ runId, reference }) => `${view.id("run", runId)}${reference === null ? "" : ` (${view.text(reference)})`}`),
      candidates.length,
    ),
  ];
}

function listed(lines: readonly string[], count: number): string[] {
  const shown = lines.slice(0, mostListed).map((line) => `    ${printable(line)}`);
  return count > shown.length ? [...shown, `    … ${count - shown.length} more`] : shown;
}

/** The outcome of an attempt in a few words: `answered 503`, `accepted`, `no answer: timeout`, `not accepted: full`. */
export function attemptText(status: number | null, error: string | null): string {
  if (status !== null) return `answered ${status}`;
  if (error === null) return "accepted";
  return error === "refused" || isOutage(error as AttemptError) ? `not accepted: ${error}` : `no answer: ${error}`;
}

interface Answered {
  readonly status: number | null;
  readonly error: string | null;
  readonly response: string | null;
}

/**
 * The response to an attempt; empty when there was none. A stream's response is the id of its entry (a time in digits and a
 * number), which masking would take for a phone number.
 */
export function responseText({ status, error, response }: Answered, view: PrivateView): string {
  if (response === null) return "";
  return status === null && error === null ? response : view.text(response);
}

/** Printed when more events wait to be planned than a search by wamid covers. */
export function unseenLine(count: number): string {
  return `not searched: the oldest ${count} events that wait to be planned; some may be about this message`;
}

export function maskedText(value: string | null, view: PrivateView): string | null {
  return value === null ? null : view.text(value);
}

/** Masks all that the sender of an event chose. */
export function maskedEvent<Event extends Answer<"event">>(event: Event, view: PrivateView): Event {
  const words = ["event", "status", "previousStatus", "errorCode", "fault"] as const;
  return {
    ...event,
    ...Object.fromEntries(words.map((word) => [word, maskedText(event[word], view)])),
    id: event.id === null ? null : view.id("event", event.id),
    subject: event.subject === null ? null : { ...event.subject, key: view.subject(event.subject) },
  };
}

export function maskedDelivery<Delivery extends Answer<"delivery">>(delivery: Delivery, view: PrivateView): Delivery {
  return {
    ...delivery,
    id: view.delivery(delivery.id),
    eventId: view.id("event", delivery.eventId),
    reason: maskedText(delivery.reason, view),
  };
}

/** An event with its hydration and deliveries, masked. */
export function maskedRouted<Event extends Pick<EventDetail, "hydration" | "deliveries"> & Answer<"event">>(
  event: Event,
  view: PrivateView,
) {
  const deliveries = event.deliveries.map((delivery) => ({
    ...maskedDelivery(delivery, view),
    tries: delivery.tries.map((each) => ({ ...each, response: maskedText(each.response, view) })),
  }));
  return { ...maskedEvent(event, view), hydration: event.hydration && maskedHydration(event.hydration, view), deliveries };
}

function maskedHydration(hydration: Hydration, view: PrivateView): Hydration {
  const found = hydration.found.map((news) => ({
    ...news,
    wamid: news.wamid === null ? null : view.subject({ type: "message", key: news.wamid }),
    status: maskedText(news.status, view),
  }));
  const candidates = hydration.candidates?.map((run) => ({
    ...run,
    runId: view.id("run", run.runId),
    reference: maskedText(run.reference, view),
  }));
  return { ...hydration, found, candidates: candidates ?? null };
}

/** Masked, the base64 body is left out: it would show everything. */
export function maskedDetail(event: EventDetail, view: PrivateView): unknown {
  if (!view.isMasked) return event;
  const wamid = event.subject?.type === "message" ? event.subject.key : null;
  return { ...maskedRouted(event, view), body: null, text: event.text === null ? null : view.body(event.text, wamid) };
}
