import { attemptText, movement, planner, responseText, verdictLine } from "../event-report.ts";
import { type PrivateView, printable, timeText } from "../output.ts";
import { nextText } from "./next-text.ts";
import type { DeliveryStoryView, EventStoryView, HydrationView, StoryView, WaitsView } from "./views.ts";

/** A story for a person, in the order in which it happened. Times are UTC. */
export function storyLines(story: StoryView, view: PrivateView): string[] {
  const registered = (story.message ?? story.run)?.registeredAt ?? null;
  const parts = [
    ...(registered === null ? [] : [{ at: registered, lines: registrationLines(story, view) }]),
    ...story.events.map((event) => ({ at: event.receivedAt, lines: eventLines(event, view) })),
  ];
  // What came in one millisecond stays as it stands: a stable sort.
  parts.sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  return [...headLines(story, view), ...parts.flatMap(({ lines }) => ["", ...lines])];
}

function headLines({ message, run, events }: StoryView, view: PrivateView): string[] {
  const tracked = message ?? run;
  if (tracked === null) {
    const [event] = events;
    // Its message is known once it is planned.
    const subject = event?.disposition === "accepted" ? event.subject : null;
    if (event !== undefined && subject !== null && events.length > 1) {
      return [printable(`${subject.type} ${view.subject(subject)} of account ${event.account}, of which nothing is known yet`)];
    }
    const about = subject === null ? "no message or run" : `${subject.type} ${view.subject(subject)}, of which nothing is known yet`;
    const id = event?.id == null ? "(quarantined: no id)" : view.id("event", event.id);
    return [printable(`event ${id}, about ${about}`)];
  }
  const key =
    message !== null ? view.subject({ type: "message", key: message.wamid }) : view.subject({ type: "run", key: run?.runId ?? "" });
  const times = Object.entries(tracked.times)
    .toSorted(([, a], [, b]) => Date.parse(a) - Date.parse(b))
    .map(([status, at]) => `${view.text(status)} ${timeText(at)}`);
  const error = message?.errorCode ?? run?.error ?? null;
  return [
    printable(`${message !== null ? "message" : "run"} ${key} of account ${tracked.account}`),
    field(
      "status",
      `${tracked.status === null ? "none yet" : view.text(tracked.status)}${error === null ? "" : `, error ${view.text(error)}`}`,
    ),
    ...(times.length === 0 ? [] : [field("first seen", times.join(", "))]),
    ...(tracked.registeredAt === null ? [field("registered", "never: nobody said that it is theirs")] : []),
    ...(events.length === 0 ? [field("events", "none has come")] : []),
  ];
}

function registrationLines({ message, run }: StoryView, view: PrivateView): string[] {
  const tracked = message ?? run;
  if (tracked === null) return [];
  const facts: [string, string | null][] = [
    ["reference", tracked.reference === null ? null : view.text(tracked.reference)],
    ["id", message?.id == null ? null : view.text(message.id)],
    ["sent at", message?.sentAt ?? null],
    ["metadata", tracked.metadata === null ? null : view.text(JSON.stringify(tracked.metadata))],
  ];
  const told = facts.filter(([, value]) => value !== null).map(([name, value]) => `${name} ${value}`);
  return [moment(tracked.registeredAt, "registered"), ...(told.length === 0 ? [] : [field("told", told.join(", "))])];
}

function eventLines(event: EventStoryView, view: PrivateView): string[] {
  const { duplicates, conflicts } = event;
  const proof =
    event.releasedFrom !== null
      ? `released from quarantine (event ${event.releasedFrom})`
      : event.secret === null
        ? "made by the relay"
        : `proved by secret ${event.secret}`;
  return [
    moment(
      event.receivedAt,
      `event ${event.seq}: ${event.event === null ? "no valid envelope" : view.text(event.event)}${event.id === null ? "" : `, ${view.id("event", event.id)}`}`,
    ),
    field("received", `${event.origin} of source ${event.source}, ${proof}`),
    ...(duplicates === 0
      ? []
      : [field("again", `${duplicates} times${conflicts === 0 ? "" : `, ${conflicts} of them with other bytes; the first were kept`}`)]),
    ...(event.status === null ? [] : [field("status", movement(event, view))]),
    ...(event.errorCode === null ? [] : [field("error code", view.text(event.errorCode))]),
    ...(event.hydration === null ? [] : hydrationLines(event.hydration, view)),
    field("came to", fate(event, view)),
    ...event.routes.map((route) => `  ${verdictLine(route)}`),
    ...event.deliveries.flatMap((delivery) => deliveryLines(delivery, view)),
  ];
}

function fate({ disposition, fault, parkedUntil, waits, routes, releasedAs }: EventStoryView, view: PrivateView): string {
  if (releasedAs !== null) return `released as event ${releasedAs}; it was quarantined: ${view.text(fault ?? "")}`;
  if (fault !== null) return `${disposition}: ${view.text(fault)}`;
  if (parkedUntil !== null) return `${disposition}, parked until ${timeText(parkedUntil)}: released when it is registered by then`;
  if (disposition === "accepted") return `accepted; waits for ${planner} to plan it${waits === null ? "" : turnText(waits)}`;
  if (disposition === "ignored") return "ignored: nobody registered its message";
  if (routes.length === 0) return `${disposition}: there were no routes`;
  return disposition;
}

function turnText({ since, ahead }: WaitsView): string {
  return `, since ${timeText(since)}, ${ahead === 0 ? "and is next" : `${ahead} before it`}`;
}

function hydrationLines({ state, reason, asked, found, foundCount, unknown, candidates }: HydrationView, view: PrivateView): string[] {
  const why = reason === null ? "" : ` (${reason})`;
  const left = unknown === null || unknown === 0 ? "" : `, ${unknown} that could be meant not read`;
  return [
    field("truncated", `hydration ${state}${why}: ${asked} asked about, ${foundCount} news${left}`),
    ...found.slice(0, 10).map(({ seq, wamid, status }) => {
      const about = wamid === null ? "" : ` of ${view.subject({ type: "message", key: wamid })}`;
      return printable(`      event ${seq}: ${status === null ? "news" : view.text(status)}${about}`);
    }),
    ...(candidates ?? []).slice(0, 10).map(({ runId, reference }) => {
      return printable(`      could be run ${view.id("run", runId)}${reference === null ? "" : `, reference ${view.text(reference)}`}`);
    }),
  ];
}

function deliveryLines(delivery: DeliveryStoryView, view: PrivateView): string[] {
  const id = view.delivery(delivery.id);
  const { route, state, replays, earlierTries, tries, next, settledAt, reason } = delivery;
  const settled = settledAt === null ? "" : ` ${timeText(settledAt)}`;
  const why = reason === null ? "" : `: ${reason}`;
  const replayed = replays === 0 ? "" : `, sent again ${replays} times`;
  return [
    printable(`    delivery to ${route}: ${state}${settled}${why}${replayed}  ${id}`),
    ...(earlierTries === 0 ? [] : [`      … ${earlierTries} attempts before these`]),
    ...tries.map((each) => {
      const { number, at, status, error, tookMs } = each;
      const answer = attemptText(status, error);
      const response = responseText(each, view);
      const said = response === "" || (status !== null && status < 300) ? "" : ` | ${response.slice(0, 120)}`;
      return printable(`      ${number}. ${timeText(at)} ${answer} in ${tookMs} ms${said}`);
    }),
    ...(next.kind === "done" ? [] : [printable(`      next: ${nextText(next, { route, id })}`)]),
  ];
}

function moment(at: string | null, what: string): string {
  return printable(`${timeText(at)}  ${what}`);
}

function field(name: string, value: string): string {
  return `    ${name.padEnd(11)} ${printable(value)}`;
}
