import { type Command, InvalidArgumentError, Option } from "commander";
import { CommandFailed, type Io } from "./io.ts";
import { type RelayOptions, time, withRelayOptions } from "./options.ts";
import { printable, printableJson, privateView } from "./output.ts";

interface Options extends RelayOptions {
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
    .option("--metadata <key=value>", "handed on with payload: enriched, matched by routes; may be repeated", metadata, {})
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
    .action((options: Options) =>
      options.file === undefined ? trackOne(track, options, io) : trackFile(track, options.file, options, io),
    );
}

async function trackOne(command: Command, options: Options, io: Io): Promise<void> {
  const { account, wamid, reference, id, conversationId, sentAt, metadata: given } = options;
  if (account === undefined) command.error("error: required option '--account <name>' not specified (or --file)");
  if (wamid === undefined) command.error("error: required option '--wamid <wamid>' not specified (or --file)");
  const registration = {
    account,
    wamid,
    reference,
    id,
    conversationId,
    sentAt,
    ...(Object.keys(given).length === 0 ? {} : { metadata: given }),
  };
  const [{ createdSchema, readAnswer }, { expectDone, withWriting }] = await Promise.all([
    import("./control-views.ts"),
    import("./reach-relay.ts"),
  ]);
  const answer = await withWriting(command, options, io, "track", (client) => client.request("POST", "/v1/messages/track", registration));
  if (answer.status === 409)
    throw new CommandFailed(printable(privateView(options.showPii).text((answer.json as { error: string }).error)));
  const { created, known } = readAnswer(createdSchema, expectDone(answer));
  if (options.json === true) io.out(printableJson({ created, known }));
  else io.out(created === 1 ? "registered" : "was registered already; what was new has been added");
}

async function trackFile(command: Command, path: string, options: Options, io: Io): Promise<void> {
  const [{ openRegistrationFile }, { trackLines }, { createTrackProgress }, { withWriting }] = await Promise.all([
    import("./track/read-file.ts"),
    import("./track/track-file.ts"),
    import("./track/progress.ts"),
    import("./reach-relay.ts"),
  ]);
  const file = openRegistrationFile(path);
  const view = privateView(options.showPii);
  const progress = createTrackProgress(io, options.json === true, () => performance.now());
  const sums = await withWriting(command, options, io, "track", (client) =>
    trackLines(client, file.lines, (soFar, refused) => {
      if (refused.length > 0) progress.leave();
      for (const { line, wamid, error } of refused) {
        const whose = wamid === null ? "" : `${view.subject({ type: "message", key: wamid })}: `;
        io.err(printable(`line ${line}: ${whose}${view.text(error)}`));
      }
      progress.show(soFar, file.size === null ? null : file.read() / Math.max(1, file.size));
    }),
  );
  const { lines, created, known, conflict, invalid } = sums;
  if (options.json === true) io.out(printableJson(sums));
  else io.out(`${lines} lines: ${created} registered, ${known} registered already, ${conflict} in conflict, ${invalid} invalid`);
  if (conflict + invalid > 0) throw new CommandFailed(`${conflict + invalid} of ${lines} lines were refused`);
}

function metadata(text: string, earlier: Readonly<Record<string, string>>): Record<string, string> {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("It must be key=value.");
  return { ...earlier, [text.slice(0, at)]: text.slice(at + 1) };
}
