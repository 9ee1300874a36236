import type { Command } from "commander";
import type { TrackedLine, TrackSums } from "../client/relay-client.ts";
import type { Line } from "../control/split-lines.ts";
import { CommandFailed, type Io } from "./io.ts";
import { pairs, time, withRelayOptions } from "./options.ts";
import { counted, print, withCommas } from "./output.ts";
import { createProgressBar, speedText } from "./progress.ts";
import { withRelay } from "./relay.ts";
import { type OptionsOf, optionOf } from "./typed.ts";

const single = ["account", "wamid", "reference", "id", "conversationId", "sentAt", "metadata"];

type Options = OptionsOf<typeof declare>;

export function build(command: Command, io: Io): void {
  declare(command).action((options) =>
    (options.file === undefined ? trackOne : trackFile)(command, options, io),
  );
}

function declare(command: Command) {
  return withRelayOptions(command)
    .addOption(
      optionOf(
        "--file <path>",
        "register the messages of a CSV or NDJSON file; - is standard input",
      ).conflicts(single),
    )
    .option("--account <name>", "the account; required if there are several")
    .option("--wamid <wamid>", "the message's network id")
    .option("--reference <text>", "your own reference, such as an order number")
    .option("--id <id>", "the service's id of the message")
    .option("--conversation-id <id>", "the service's id of the conversation")
    .option(
      "--sent-at <time>",
      "when it was sent, such as 2026-11-20T08:00:00Z (default: now)",
      time,
    )
    .option(
      "--metadata <key=value>",
      "your own data, for routes and payload: enriched; may be repeated",
      pairs,
    )
    .option("--show-pii", "show wamids and phone numbers in clear")
    .option(
      "--json",
      "print {created, known} as JSON; for a file {lines, created, known, conflict, invalid}",
    )
    .addHelpText(
      "after",
      `
Registering again is safe: the relay adds new facts and refuses a fact that differs from the stored one. It registers each
line of a file separately, and reports refused lines with their numbers (exit code 1). After a failure, run it again.

Files:
  .csv             the first line names the columns: account, wamid, id, reference, conversationId, sentAt, metadata.<key>
  .ndjson, .jsonl  one object a line, as POST /v1/messages/track takes it
  another name     decided by the first character

Examples:
  wamid-relay track --wamid wamid.HBgN… --reference order-1234 --metadata team=support
  wamid-relay track --file messages.csv
  sent-messages | wamid-relay track --file -`,
    );
}

async function trackOne(command: Command, options: Options, io: Io): Promise<void> {
  const { account, wamid, reference, id, conversationId, sentAt, metadata } = options;
  if (wamid === undefined)
    command.error("error: required option '--wamid <wamid>' not specified (or --file)");
  // It would register a message of that name, which never gets an event.
  if (/^wamid:[0-9a-f]{12}$/.test(wamid))
    command.error(
      `error: --wamid: ${wamid} is masked. "wamid-relay explain ${wamid} --show-pii" prints the wamid to register`,
    );
  const registration = { account, wamid, reference, id, conversationId, sentAt, metadata };
  const { result } = await withRelay(command, options, io, "track", (client) =>
    client.track(registration),
  );
  const [created, known] = result === "created" ? [1, 0] : [0, 1];
  print(io, options, { created, known }, () => [
    created === 1 ? "registered" : "was registered already; what was new has been added",
  ]);
}

async function trackFile(command: Command, options: Options, io: Io): Promise<void> {
  const { openRegistrationFile } = await import("./track-file.ts");
  const file = openRegistrationFile(options.file ?? "");
  const startedAt = performance.now();
  const bar = createProgressBar(io, options.json === true);
  const sums: TrackSums = { lines: 0, created: 0, known: 0, conflict: 0, invalid: 0 };
  const count = ({ result, error, wamid }: TrackedLine, line: Line | undefined) => {
    sums.lines += 1;
    sums[result] += 1;
    const fault = line !== undefined && "fault" in line ? line.fault : error;
    if (fault !== undefined) {
      bar.leave();
      io.err(`line ${line?.line ?? 0}: ${wamid === null ? "" : `${wamid}: `}${fault}`);
    }
    const part = file.size === null ? null : file.read() / Math.max(1, file.size);
    bar.show(
      part,
      speedText(
        sums.lines,
        "lines",
        performance.now() - startedAt,
        sums.conflict + sums.invalid,
        "refused",
      ),
    );
  };
  await withRelay(command, options, io, "track", async (client) => {
    const unreported: Line[] = [];
    async function* texts(): AsyncGenerator<string, void> {
      for await (const line of file.lines) {
        unreported.push(line);
        // The relay refuses a line with a fault as well, so that each line has a result.
        yield "text" in line ? line.text : "null";
      }
    }
    try {
      for await (const result of client.trackAll(texts())) count(result, unreported.shift());
    } catch (error) {
      throw await stoppedAt(unreported[0]?.line ?? 1, error);
    }
  });
  const { lines, created, known, conflict, invalid } = sums;
  const results = Object.entries({
    registered: created,
    "registered already": known,
    "in conflict": conflict,
    invalid,
  });
  print(io, options, sums, () => [
    `${counted(lines, "line")}: ${results.map(([word, count]) => `${withCommas(count)} ${word}`).join(", ")}`,
  ]);
  if (conflict + invalid > 0)
    throw new CommandFailed(
      `${withCommas(conflict + invalid)} of ${counted(lines, "line")} refused`,
    );
}

/** What the relay refuses for good is no reason to continue. */
async function stoppedAt(line: number, error: unknown): Promise<unknown> {
  const [{ failureOf }, { RelayClientError }] = await Promise.all([
    import("./control-client.ts"),
    import("../client/connection.ts"),
  ]);
  const isTemporary = error instanceof RelayClientError && [0, 200, 503].includes(error.status);
  const failure = failureOf(error);
  if (!isTemporary || !(failure instanceof CommandFailed)) return failure;
  return new CommandFailed(
    `${failure.message}; stopped at line ${line}. What came before is registered: run it again, or go on from there`,
  );
}
