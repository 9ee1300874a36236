import { type Command, InvalidArgumentError } from "commander";
import { createdSchema, readAnswer } from "./control-views.ts";
import type { Io } from "./io.ts";
import { printableJson } from "./printable.ts";
import { expectDone, type RelayOptions, withRelayOptions, withWriting } from "./reach-relay.ts";

interface Options extends RelayOptions {
  readonly account: string;
  readonly wamid: string;
  readonly reference?: string;
  readonly id?: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly json?: boolean;
}

/** Adds `track`: registers one message as the user's own. */
export function addTrackCommand(program: Command, io: Io): void {
  const track = withRelayOptions(program.command("track"));
  track
    .description("register a message: its events are then tracked, and those parked for it are released")
    .requiredOption("--account <name>", "the account at the messaging service")
    .requiredOption("--wamid <wamid>", "the message's network id")
    .option("--reference <text>", "your own name for it, such as an order number")
    .option("--id <id>", "the service's id of the message")
    .option("--metadata <key=value>", "handed on with payload: enriched, matched by routes; may be repeated", metadata, {})
    .option("--json", "print {created} as JSON")
    .addHelpText(
      "after",
      `
Registering a message again adds what was not given before; a different id or reference is refused.

Example:
  wamid-relay track --account main --wamid wamid.HBgN… --reference order-1234 --metadata team=support`,
    )
    .action((options: Options) => trackMessage(track, options, io));
}

async function trackMessage(command: Command, options: Options, io: Io): Promise<void> {
  const { account, wamid, reference, id, metadata: given } = options;
  const registration = {
    account,
    wamid,
    ...(reference === undefined ? {} : { reference }),
    ...(id === undefined ? {} : { id }),
    ...(Object.keys(given).length === 0 ? {} : { metadata: given }),
  };
  const { created } = await withWriting(command, options, io, "track", async (client) =>
    readAnswer(createdSchema, expectDone(await client.request("POST", "/v1/messages/track", registration))),
  );
  if (options.json === true) io.out(printableJson({ created }));
  else io.out(created === 1 ? "registered" : "was registered already; what was new has been added");
}

function metadata(text: string, earlier: Readonly<Record<string, string>>): Record<string, string> {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("It must be key=value.");
  return { ...earlier, [text.slice(0, at)]: text.slice(at + 1) };
}
