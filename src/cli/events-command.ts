import { type Command, Option } from "commander";
import { z } from "zod";
import { dispositions } from "../event/plan.ts";
import {
  eventDetailSchema,
  eventSchema,
  readAnswer,
  type ShownEvent,
  type ShownEventDetail,
  type ShownHydration,
} from "./control-views.ts";
import { addEventsSaveCommand } from "./events-save.ts";
import type { Io } from "./io.ts";
import { printableJson } from "./printable.ts";
import { type PrivateView, privateView } from "./private-view.ts";
import { expectDone, type RelayOptions, withReading, withRelayOptions } from "./reach-relay.ts";
import { readPages } from "./read-pages.ts";
import { tableLines } from "./table.ts";
import { count, type TimeOptions, timeFilter, timeOptions, timeText } from "./time-options.ts";

interface ListOptions extends RelayOptions, TimeOptions {
  readonly event?: string;
  readonly source?: string;
  readonly account?: string;
  readonly status?: string;
  readonly disposition?: string;
  readonly wamid?: string;
  readonly before?: number;
  readonly limit: number;
  readonly showPii?: boolean;
  readonly json?: boolean;
}

interface ShowOptions extends RelayOptions {
  readonly account?: string;
  readonly body?: boolean;
  readonly showPii?: boolean;
  readonly json?: boolean;
}

/** Adds `events list`, `events show` and `events save`. They read the file itself, beside a relay that runs or without one. */
export function addEventsCommand(program: Command, io: Io): void {
  const events = program.command("events").description("look at the events received and what became of them");

  const list = withRelayOptions(events.command("list")).description("list events, newest first");
  list
    .option("--event <kind>", "of this kind, such as message.status")
    .option("--source <name>", "from this source")
    .option("--account <name>", "of this account")
    .option("--status <word>", "with this status, such as failed")
    .addOption(new Option("--disposition <word>", "with this disposition").choices(dispositions))
    .option("--wamid <wamid>", "about this message");
  for (const option of timeOptions()) list.addOption(option);
  list
    .option("--limit <count>", "at most so many", count, 50)
    .option("--before <seq>", "only events before this one: the last of the page before", count)
    .option("--show-pii", "show wamids in clear; they contain people's phone numbers")
    .option("--json", "print {data, next} as JSON; next is for --before, null at the end")
    .addHelpText(
      "after",
      `
Examples:
  wamid-relay events list --since 2h --status failed
  wamid-relay events list --disposition quarantined --limit 200
  wamid-relay events list --json | jq -r '.data[].id'
  RELAY_TOKEN=… wamid-relay events list --relay https://relay.example`,
    )
    .action((options: ListOptions) => listEvents(list, options, io));

  const show = withRelayOptions(events.command("show").argument("<event>", "event id, or seq (the number that events list shows)"));
  show
    .description("show all about one event: how it came, what it moved, each route's verdict, each delivery's attempts")
    .option("--account <name>", "the account, where several have an event of this id")
    .option("--body", "print only the body, byte for byte as it was received (not masked)")
    .option("--show-pii", "show wamids and phone numbers in clear")
    .option("--json", "print it as JSON")
    .addHelpText(
      "after",
      `
Examples:
  wamid-relay events show 01998d3e-7c1a-7000-8000-00000000002a
  wamid-relay events show 1234 --show-pii
  wamid-relay events show 1234 --body > body.json`,
    )
    .action((id: string, options: ShowOptions) => showEvent(show, id, options, io));

  addEventsSaveCommand(events, io);
}

async function listEvents(command: Command, options: ListOptions, io: Io): Promise<void> {
  const { event, source, account, status, disposition, wamid, before, limit } = options;
  const query = { event, source, account, status, disposition, wamid, before: before?.toString(), ...timeFilter(options, Date.now()) };
  const found = await withReading(command, options, io, (client) =>
    readPages(client, "/v1/events", query, limit, { item: eventSchema, next: z.number() }),
  );
  const view = privateView(options.showPii);
  if (options.json === true) {
    io.out(printableJson({ data: found.data.map((each) => maskedEvent(each, view)), next: found.next }));
    return;
  }
  const rows = found.data.map((each) => [
    timeText(each.receivedAt),
    String(each.seq),
    each.event ?? "",
    each.status ?? "",
    each.disposition,
    each.subject === null ? "" : view.subject(each.subject),
    each.id ?? "",
  ]);
  for (const line of tableLines(["RECEIVED (UTC)", "SEQ", "EVENT", "STATUS", "DISPOSITION", "ABOUT", "ID"], rows)) io.out(line);
  if (found.next !== null) io.err(`there are older ones: --before ${found.next}, or a greater --limit`);
}

async function showEvent(command: Command, id: string, options: ShowOptions, io: Io): Promise<void> {
  const query = options.account === undefined ? "" : `?${new URLSearchParams({ account: options.account })}`;
  const event = await withReading(command, options, io, async (client) =>
    readAnswer(eventDetailSchema, expectDone(await client.request("GET", `/v1/events/${encodeURIComponent(id)}${query}`))),
  );
  if (options.body === true) {
    process.stdout.write(Buffer.from(event.body, "base64"));
    return;
  }
  const view = privateView(options.showPii);
  if (options.json === true) {
    io.out(printableJson(maskedDetail(event, view)));
    return;
  }
  const { eventLines } = await import("./event-report.ts");
  for (const line of eventLines(event, view)) io.out(line);
}

function maskedEvent(event: ShownEvent, view: PrivateView): ShownEvent {
  return event.subject === null ? event : { ...event, subject: { ...event.subject, key: view.subject(event.subject) } };
}

function maskedHydration(hydration: ShownHydration, view: PrivateView): ShownHydration {
  const found = hydration.found.map((news) => ({
    ...news,
    wamid: news.wamid === null ? null : view.subject({ type: "message", key: news.wamid }),
  }));
  return { ...hydration, found };
}

/** Masked, the base64 of the body is left out: it would hold everything in clear. */
function maskedDetail(event: ShownEventDetail, view: PrivateView): unknown {
  if (!view.isMasked) return event;
  const { body: _, ...rest } = event;
  const wamid = event.subject?.type === "message" ? event.subject.key : null;
  return {
    ...rest,
    ...maskedEvent(event, view),
    body: null,
    hydration: event.hydration === null ? null : maskedHydration(event.hydration, view),
    text: event.text === null ? null : view.body(event.text, wamid),
    deliveries: event.deliveries.map((delivery) => ({
      ...delivery,
      tries: delivery.tries.map((each) => ({ ...each, response: each.response === null ? null : view.text(each.response) })),
    })),
  };
}
