import type {
  Attempt,
  RelayDelivery,
  RelayEventDetail,
  RelayStory,
} from "../client/relay-client.ts";
import { meaningOf } from "../model/failure-codes.ts";
import { attemptText, giveUpText, nextStepText, requestText, verdictText } from "../model/words.ts";
import { counted, timeText } from "./output.ts";

/*
 * Events and their deliveries in lines for people. Times are UTC.
 */

type NextStep = RelayStory["events"][number]["deliveries"][number]["next"];
type Delivery = RelayDelivery & {
  readonly attemptHistory: readonly Attempt[];
  readonly earlierAttempts?: number;
  readonly next: NextStep;
};
type Event = Omit<RelayEventDetail, "headers" | "body" | "text" | "deliveries"> & {
  readonly deliveries: readonly Delivery[];
};
type Hydration = NonNullable<Event["hydration"]>;

const responseOfStory = 120;
const responseOfEvent = 1_000;
const mostListed = 10;

export function storyLines(story: RelayStory): string[] {
  const tracked = story.message ?? story.run;
  const parts = story.events.map((event) => ({
    at: event.receivedAt,
    lines: eventLines(event, responseOfStory),
  }));
  if (tracked !== null && tracked.registeredAt !== null)
    parts.unshift({ at: tracked.registeredAt, lines: registrationLines(tracked, story.message) });
  // What came in one millisecond keeps its order: a stable sort.
  parts.sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  return [...headLines(story), ...parts.flatMap(({ lines }) => ["", ...lines])];
}

export function eventDetailLines(event: RelayEventDetail, isMasked: boolean): string[] {
  return [
    ...eventLines(event, responseOfEvent),
    ...field("account", event.account || "none"),
    ...field("created at", event.createdAt && timeText(event.createdAt)),
    ...field("size", `${event.size} bytes`),
    "",
    isMasked ? "body (masked; --show-pii shows it, --body prints the bytes received)" : "body",
    ...bodyLines(event, isMasked).map((line) => `  ${line}`),
  ];
}

function bodyLines({ text, size }: RelayEventDetail, isMasked: boolean): string[] {
  if (text === null) return [`not UTF-8, ${size} bytes; --body prints them`];
  // Masked, it is no longer the bytes that came, but JSON unless it begins with a bracket.
  const shown =
    isMasked && !text.startsWith("[body") ? JSON.stringify(JSON.parse(text), null, 2) : text;
  return shown.split(/\r?\n/);
}

function headLines({ message, run, events }: RelayStory): string[] {
  const tracked = message ?? run;
  if (tracked === null)
    return [`event ${events[0]?.id ?? "(quarantined: no id)"}, about no message or run`];
  const times = Object.entries(tracked.times)
    .toSorted(([, a], [, b]) => Date.parse(a) - Date.parse(b))
    .map(([status, at]) => `${status} ${timeText(at)}`);
  const error = message?.errorCode ?? run?.error ?? null;
  return [
    `${message !== null ? "message" : "run"} ${message?.wamid ?? run?.runId} of account ${tracked.account}`,
    ...field("phone", message?.phone ?? null),
    ...field(
      "status",
      `${tracked.status ?? "none yet"}${error === null ? "" : `, error ${error}`}`,
    ),
    ...field("first seen", times.join(", ")),
    ...field("registered", tracked.registeredAt === null && "no"),
    ...field("events", events.length === 0 && "none"),
  ];
}

function registrationLines(
  tracked: NonNullable<RelayStory["message"] | RelayStory["run"]>,
  message: RelayStory["message"],
): string[] {
  const facts = {
    reference: tracked.reference,
    id: message?.id,
    "sent at": message?.sentAt,
    metadata: tracked.metadata && JSON.stringify(tracked.metadata),
  };
  const known = Object.entries(facts).flatMap(([name, value]) =>
    value == null ? [] : [`${name} ${value}`],
  );
  return [`${timeText(tracked.registeredAt)}  registered`, ...field("with", known.join(", "))];
}

function eventLines(event: Event, mostOfResponse: number): string[] {
  const { seq, id, origin, source, secret, releasedFrom, duplicates, conflicts } = event;
  const verification =
    releasedFrom !== null
      ? `released from quarantine (event ${releasedFrom})`
      : secret === null
        ? "made by the relay"
        : `verified by secret ${secret}`;
  const others =
    conflicts === 0 ? "" : `, ${conflicts} of them with other bytes; the first body was kept`;
  return [
    `${timeText(event.receivedAt)}  event ${seq}: ${event.event ?? "not read"}${id === null ? "" : `, ${id}`}`,
    ...field("received", `${origin} of source ${source}, ${verification}`),
    ...field("duplicates", duplicates > 0 && `${duplicates}${others}`),
    ...field(
      "event",
      event.request &&
        `${requestText(event.request)}; events list --request ${event.request.digest}`,
    ),
    ...field("status", movement(event)),
    ...field("error code", event.errorCode && failureText(event.errorCode)),
    ...(event.hydration === null ? [] : hydrationLines(event.hydration)),
    ...field("disposition", dispositionText(event)),
    ...event.routes.map(
      (verdict) => `    ${verdict.route}: ${verdictText(verdict, event.hydration)}`,
    ),
    ...event.deliveries.flatMap((delivery) => deliveryLines(delivery, mostOfResponse)),
  ];
}

function failureText(code: string): string {
  const meaning = meaningOf(code);
  return meaning === null ? code : `${code}: ${meaning}`;
}

function movement({ status, previousStatus, transition }: Event): string | null {
  const before = previousStatus ?? "unknown";
  if (status === null) return previousStatus && `stays ${before}`;
  return transition
    ? `${before} → ${status} (a transition)`
    : `stays ${before}, although ${status} was reported (no transition)`;
}

function dispositionText({ disposition, fault, parkedUntil, routes, releasedAs }: Event): string {
  if (releasedAs !== null) return `released as event ${releasedAs}; until then: ${fault ?? ""}`;
  if (fault !== null) return `${disposition}: ${fault}`;
  if (parkedUntil !== null)
    return `${disposition}, parked until ${timeText(parkedUntil)}: released when it is registered by then`;
  if (disposition === "ignored") return "ignored: its message was not registered";
  return routes.length === 0 ? `${disposition}: there were no routes` : disposition;
}

export function hydrationLines({
  state,
  reason,
  polled,
  found,
  foundCount,
  unknown,
}: Hydration): string[] {
  const why = reason === null ? "" : ` (${giveUpText(reason)})`;
  const left =
    unknown === null || unknown === 0 ? "" : `, ${counted(unknown, "candidate")} not read`;
  const changes = found.map(
    ({ seq, wamid, status }) =>
      `event ${seq}: ${status ?? "an event"}${wamid === null ? "" : ` of ${wamid}`}`,
  );
  return [
    ...field(
      "truncated",
      `hydration ${state}${why}: ${polled} polled, ${counted(foundCount, "change")} found${left}`,
    ),
    ...listed(changes, foundCount),
  ];
}

function listed(lines: readonly string[], count: number): string[] {
  const shown = lines.slice(0, mostListed);
  return [...shown, ...(count > shown.length ? [`… ${count - shown.length} more`] : [])].map(
    (line) => `      ${line}`,
  );
}

function deliveryLines(delivery: Delivery, mostOfResponse: number): string[] {
  const {
    id,
    route,
    state,
    replays,
    earlierAttempts = 0,
    attemptHistory,
    next,
    settledAt,
    reason,
  } = delivery;
  const settled = settledAt === null ? "" : ` ${timeText(settledAt)}`;
  const why = reason === null ? "" : `: ${reason}`;
  const replayed = replays === 0 ? "" : `, replayed ${counted(replays, "time")}`;
  const nextStep = nextText(next, delivery);
  return [
    `    delivery to ${route}: ${state}${settled}${why}${replayed}  ${id}`,
    ...(earlierAttempts === 0 ? [] : [`      … ${earlierAttempts} attempts before these`]),
    ...attemptHistory.map((attempt) => `      ${attemptLine(attempt, mostOfResponse)}`),
    ...(nextStep === null ? [] : [`      next: ${nextStep}`]),
  ];
}

function attemptLine(
  { number, at, status, error, response, tookMs }: Attempt,
  mostOfResponse: number,
): string {
  const isShown =
    response !== null && (status === null || status >= 300 || mostOfResponse > responseOfStory);
  return `${number}. ${timeText(at)} ${attemptText(status, error)} in ${tookMs} ms${isShown ? ` | ${response.slice(0, mostOfResponse)}` : ""}`;
}

function nextText(
  next: NextStep,
  { route, id }: Pick<RelayDelivery, "route" | "id">,
): string | null {
  const { kind, at } = next;
  if (kind === "dead") return `nothing; send it again with: wamid-relay retry ${id}`;
  const text = nextStepText(next);
  if (kind === "no route") return `nothing: ${text}`;
  if (kind === "stopped") return `nothing: ${text}; start it with: wamid-relay resume ${route}`;
  if (text === null || at === null) return text;
  if (kind === "due") return `due since ${timeText(at)}; ${text}`;
  const end = kind === "paused" ? `; end it with: wamid-relay resume ${route}` : "";
  return `${kind === "attempt" ? "attempt" : text} ${timeText(at)}${end}`;
}

/** No line without a value. */
function field(name: string, value: string | null | false): string[] {
  return value ? [`    ${name.padEnd(11)} ${value}`] : [];
}
