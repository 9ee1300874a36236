import { type Command, Option } from "commander";
import type { Io } from "./io.ts";
import { pairs, type RelayOptions, time, withRelayOptions } from "./options.ts";

export interface TrackOptions extends RelayOptions {
  readonly file?: string;
  readonly account?: string;
  readonly wamid?: string;
  readonly reference?: string;
  readonly id?: string;
  readonly conversationId?: string;
  readonly sentAt?: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly showPii?: boolean;
  readonly json?: boolean;
}

const single = ["account", "wamid", "reference", "id", "conversationId", "sentAt", "metadata"];

/** Adds `track`: registers messages as the user's own, one by flags or many from a file. */
export function addTrackCommand(program: Command, io: Io): void {
  const track = withRelayOptions(program.command("track"));
  track
    .description("register messages: their events are then tracked, and those parked for them are released")
    .addOption(new Option("--file <path>", "register those of a CSV or NDJSON file; - is standard input").conflicts(single))
    .option("--account <name>", "the account at the messaging service")
    .option("--wamid <wamid>", "the message's network id")
    .option("--reference <text>", "your own name for it, such as an order number")
    .option("--id <id>", "the service's id of the message")
    .option("--conversation-id <id>", "the service's id of the conversation")
    .addOption(new Option("--sent-at <time>", "when it was sent, such as 2026-11-20T08:00:00Z; now when not given").argParser(time))
    .option("--metadata <key=value>", "handed on with payload: enriched, matched by routes; may be repeated", pairs("key=value"), {})
    .option("--show-pii", "show wamids and phone numbers in clear")
    .option("--json", "print {created, known} as JSON; of a file {lines, created, known, conflict, invalid}")
    .addHelpText(
      "after",
      `
Registering a message again adds what was not given before; a fact that differs from the stored one is refused.

Examples:
  wamid-relay track --account main --wamid wamid.HBgN… --reference order-1234 --metadata team=support
  wamid-relay track --file messages.csv
  sent-messages | wamid-relay track --file -`,
    )
    .action(async (options: TrackOptions) => {
      const { trackFile, trackOne } = await import("./track-run.ts");
      await (options.file === undefined ? trackOne(track, options, io) : trackFile(track, options.file, options, io));
    });
}
