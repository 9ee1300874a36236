import { type Command, Option } from "commander";
import { dispositions } from "../model/plan.ts";
import type { Io } from "./io.ts";
import { count, givenArgument, type RelayOptions, type TimeOptions, timeOptions, withRelayOptions } from "./options.ts";

export interface EventsListOptions extends RelayOptions, TimeOptions {
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

export interface EventsShowOptions extends RelayOptions {
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
    .option("--json", "print {data, next, unseen} as JSON; next is for --before, null at the end")
    .addHelpText(
      "after",
      `
Examples:
  wamid-relay events list --since 2h --status failed
  wamid-relay events list --disposition quarantined --limit 200
  wamid-relay events list --json | jq -r '.data[].id'
  RELAY_TOKEN=… wamid-relay events list --relay https://relay.example`,
    )
    .action(async (options: EventsListOptions) => {
      const { listEvents } = await import("./events-run.ts");
      await listEvents(list, options, io);
    });

  const show = withRelayOptions(
    events.command("show").argument("<event>", "event id, or seq (the number that events list shows)", givenArgument),
  );
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
    .action(async (id: string, options: EventsShowOptions) => {
      const { showEvent } = await import("./events-run.ts");
      await showEvent(show, id, options, io);
    });

  addEventsSaveCommand(events, io);
}

export interface EventsSaveOptions extends RelayOptions {
  readonly account?: string;
  readonly out?: string;
  readonly salt?: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

/** Adds `events save`: a captured event as a fixture without personal data. */
function addEventsSaveCommand(events: Command, io: Io): void {
  const save = withRelayOptions(
    events.command("save").argument("<event>", "event id, or seq (the number that events list shows)", givenArgument),
  );
  save
    .description("save an event as a fixture for trigger: phones, wamids, names and ids of people replaced, every other byte as received")
    .option("--account <name>", "the account, where several have an event of this id")
    .option("--out <file>", "write it to this file; - prints it (default: fixtures/<kind>.<status>.json)")
    .option(
      "--salt <text>",
      "the same salt replaces the same by the same, over several saves; keep it to yourself (default: another each time)",
    )
    .option("--force", "write over a file that is there")
    .option("--json", "print {file, replaced} as JSON")
    .addHelpText(
      "after",
      `
Free text is searched for the phones and names that stand elsewhere in the event. What nothing tells of stays:
look the file over before you share it.

Examples:
  wamid-relay events save 1234
  wamid-relay events save 01998d3e-7c1a-7000-8000-00000000002a --out fixtures/button-reply.json --salt "our team's"`,
    )
    .action(async (id: string, options: EventsSaveOptions) => {
      const { saveEvent } = await import("./events-run.ts");
      await saveEvent(save, id, options, io);
    });
}
