import type { Command } from "commander";
import type { Io } from "./io.ts";
import { givenArgument, type RelayOptions, withRelayOptions } from "./options.ts";

export interface EventsSaveOptions extends RelayOptions {
  readonly account?: string;
  readonly out?: string;
  readonly salt?: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

/** Adds `events save`: a captured event as a fixture, nobody's data in it. */
export function addEventsSaveCommand(events: Command, io: Io): void {
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
      const { saveEvent } = await import("./events/save-event.ts");
      await saveEvent(save, id, options, io);
    });
}
