import type { Command } from "commander";
import type { RelayStory } from "../client/relay-client.ts";
import { giveUpText, requestText } from "../model/words.ts";
import { attemptText, movement, verdictLine } from "./event-report.ts";
import type { Io } from "./io.ts";
import { choice, count, givenArgument, withRelayOptions } from "./options.ts";
import { counted, print, timeText } from "./output.ts";
import type { OptionsOf } from "./typed.ts";

type Story = RelayStory;
type EventStory = Story["events"][number];
type DeliveryStory = EventStory["deliveries"][number];

/** Adds `explain`: the whole story of a message, run or event. */
export function build(command: Command, io: Io): void {
  declare(command).action((name, options) => explain(command, name, options, io));
}

type Options = OptionsOf<typeof declare>;

function declare(command: Command) {
  return withRelayOptions(command)
    .argument("<name>", "wamid, event id or seq, reference, run id, or the service's id; masked or not", givenArgument)
    .addOption(choice("--as <what>", "what the name is, if several things have it", ["event", "message", "run"]))
    .option("--account <name>", "the account, if several have something of this name")
    .option("--limit <count>", "most events of each message", count, 50)
    .option("--after <seq>", "only events after this one: the last of the previous page", count)
    .option("--show-pii", "show wamids, phone numbers and what was registered in clear")
    .option("--json", "print {data} as JSON, one entry for each message, run or event of the name")
    .addHelpText(
      "after",
      `
Times are UTC.

Examples:
  wamid-relay explain wamid.HBgNNTQ5MTE1NTU1MDEwMBUCABEYEjNFQjBD
  wamid-relay explain wamid:caa16f1062d2
  wamid-relay explain 01998d3e-7c1a-7000-8000-00000000002a
  wamid-relay explain order-1234 --show-pii
  wamid-relay explain 4711 --as event --json`,
    );
}

/** Prints the whole story of each message, run or event of this name. */
async function explain(command: Command, name: string, options: Options, io: Io): Promise<void> {
  const { withRelay } = await import("./reach-relay.ts");
  const { as, account, after, limit } = options;
  // Only the running relay knows whether a circuit breaker is open.
  const { data } = await withRelay(command, options, io, "read", (client) => client.explain({ name, as, account, after, limit }));
  print(io, options, { data }, () => data.flatMap((story, index) => [...(index > 0 ? [""] : []), ...storyLines(story)]));
  if (options.json === true) return;
  for (const { next } of data) if (next !== null) io.err(`there are later events: --after ${next}, or a greater --limit`);
}

/** A story for a person, in the order in which it happened. Times are UTC. */
function storyLines(story: Story): string[] {
  const registered = (story.message ?? story.run)?.registeredAt ?? null;
  const parts = [
    ...(registered === null ? [] : [{ at: registered, lines: registrationLines(story) }]),
    ...story.events.map((event) => ({ at: event.receivedAt, lines: eventLines(event) })),
  ];
  // What came in one millisecond stays as it stands: a stable sort.
  parts.sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  return [...headLines(story), ...parts.flatMap(({ lines }) => ["", ...lines])];
}

function headLines({ message, run, events }: Story): string[] {
  const tracked = message ?? run;
  if (tracked === null) {
    const [event] = events;
    return [`event ${event?.id ?? "(quarantined: no id)"}, about no message or run`];
  }
  const key = message !== null ? message.wamid : (run?.runId ?? "");
  const times = Object.entries(tracked.times)
    .toSorted(([, a], [, b]) => Date.parse(a) - Date.parse(b))
    .map(([status, at]) => `${status} ${timeText(at)}`);
  const error = message?.errorCode ?? run?.error ?? null;
  return [
    `${message !== null ? "message" : "run"} ${key} of account ${tracked.account}`,
    field("status", `${tracked.status ?? "none yet"}${error === null ? "" : `, error ${error}`}`),
    ...(times.length === 0 ? [] : [field("first seen", times.join(", "))]),
    ...(tracked.registeredAt === null ? [field("registered", "no")] : []),
    ...(events.length === 0 ? [field("events", "none")] : []),
  ];
}

function registrationLines({ message, run }: Story): string[] {
  const tracked = message ?? run;
  if (tracked === null) return [];
  const facts: [string, string | null][] = [
    ["reference", tracked.reference],
    ["id", message?.id ?? null],
    ["sent at", message?.sentAt ?? null],
    ["metadata", tracked.metadata === null ? null : JSON.stringify(tracked.metadata)],
  ];
  const given = facts.filter(([, value]) => value !== null).map(([name, value]) => `${name} ${value}`);
  return [moment(tracked.registeredAt, "registered"), ...(given.length === 0 ? [] : [field("with", given.join(", "))])];
}

function eventLines(event: EventStory): string[] {
  const { duplicates, conflicts } = event;
  const verification =
    event.releasedFrom !== null
      ? `released from quarantine (event ${event.releasedFrom})`
      : event.secret === null
        ? "made by the relay"
        : `verified by secret ${event.secret}`;
  return [
    moment(event.receivedAt, `event ${event.seq}: ${event.event ?? "no valid envelope"}${event.id === null ? "" : `, ${event.id}`}`),
    field("received", `${event.origin} of source ${event.source}, ${verification}`),
    ...(duplicates === 0
      ? []
      : [field("duplicates", `${duplicates}${conflicts === 0 ? "" : `, ${conflicts} of them with other bytes; the first body was kept`}`)]),
    ...(event.request === null ? [] : [field("event", `${requestText(event.request)}; events list --request ${event.request.digest}`)]),
    ...(event.status === null ? [] : [field("status", movement(event))]),
    ...(event.errorCode === null ? [] : [field("error code", event.errorCode)]),
    ...(event.hydration === null ? [] : hydrationLines(event.hydration)),
    field("disposition", fate(event)),
    ...event.routes.map((route) => `  ${verdictLine(route)}`),
    ...event.deliveries.flatMap((delivery) => deliveryLines(delivery)),
  ];
}

function fate({ disposition, fault, parkedUntil, routes, releasedAs }: EventStory): string {
  if (releasedAs !== null) return `released as event ${releasedAs}; it was quarantined: ${fault ?? ""}`;
  if (fault !== null) return `${disposition}: ${fault}`;
  if (parkedUntil !== null) return `${disposition}, parked until ${timeText(parkedUntil)}: released when it is registered by then`;
  if (disposition === "ignored") return "ignored: its message was not registered";
  if (routes.length === 0) return `${disposition}: there were no routes`;
  return disposition;
}

function hydrationLines({ state, reason, polled, found, foundCount, unknown, candidates }: NonNullable<EventStory["hydration"]>): string[] {
  const why = reason === null ? "" : ` (${giveUpText(reason)})`;
  const left = unknown === null || unknown === 0 ? "" : `, ${unknown} candidates not read`;
  return [
    field("truncated", `hydration ${state}${why}: ${polled} polled, ${foundCount} changes found${left}`),
    ...found.slice(0, 10).map(({ seq, wamid, status }) => {
      const about = wamid === null ? "" : ` of ${wamid}`;
      return `      event ${seq}: ${status ?? "an event"}${about}`;
    }),
    ...(candidates ?? []).slice(0, 10).map(({ runId, reference }) => {
      return `      could be run ${runId}${reference === null ? "" : `, reference ${reference}`}`;
    }),
  ];
}

function deliveryLines(delivery: DeliveryStory): string[] {
  const { id, route, state, replays, earlierAttempts, attemptHistory, next, settledAt, reason } = delivery;
  const settled = settledAt === null ? "" : ` ${timeText(settledAt)}`;
  const why = reason === null ? "" : `: ${reason}`;
  const replayed = replays === 0 ? "" : `, replayed ${counted(replays, "time")}`;
  return [
    `    delivery to ${route}: ${state}${settled}${why}${replayed}  ${id}`,
    ...(earlierAttempts === 0 ? [] : [`      … ${earlierAttempts} attempts before these`]),
    ...attemptHistory.map((each) => {
      const { number, at, status, error, response, tookMs } = each;
      const answer = attemptText(status, error);
      const shown = response === null || (status !== null && status < 300) ? "" : ` | ${response.slice(0, 120)}`;
      return `      ${number}. ${timeText(at)} ${answer} in ${tookMs} ms${shown}`;
    }),
    ...(next.kind === "done" ? [] : [`      next: ${nextText(next, { route, id })}`]),
  ];
}

function moment(at: string | null, what: string): string {
  return `${timeText(at)}  ${what}`;
}

function field(name: string, value: string): string {
  return `    ${name.padEnd(11)} ${value}`;
}

/** The next step of a delivery, in words. */
function nextText(
  { kind, at, behind, ahead, reason }: DeliveryStory["next"],
  { route, id }: { readonly route: string; readonly id: string },
): string {
  switch (kind) {
    case "attempt":
      return `attempt ${timeText(at)}`;
    case "due":
      return `due since ${timeText(at)}; goes out when the destination has room`;
    case "exchange":
      return "the exchange is in flight";
    case "held": {
      if (behind === null) return "held behind an earlier delivery of its message";
      return `held until the delivery of event ${behind} ends${ahead === 0 ? "" : `, then behind ${ahead} more`}`;
    }
    case "breaker":
      return `the destination fails, and its circuit breaker is open; due ${timeText(at)}`;
    case "paused":
      return `the destination asked for a pause (429) until ${timeText(at)}; end it with: wamid-relay resume ${route}`;
    case "stopped":
      return `nothing: the destination is stopped (${reason ?? "?"}); start it with: wamid-relay resume ${route}`;
    case "no route":
      return "nothing: its route is not in the settings";
    case "dead":
      return `nothing; send it again with: wamid-relay retry ${id}`;
    default:
      return kind;
  }
}
