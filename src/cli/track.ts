import type { Command } from "commander";
import type { TrackEnd, TrackedLine, TrackSums } from "../client/relay-client.ts";
import type { Line } from "../control/split-lines.ts";
import type { ControlClient } from "./control-client.ts";
import { CommandFailed, type Io } from "./io.ts";
import { pairs, time, withRelayOptions } from "./options.ts";
import { print } from "./output.ts";
import { createProgressBar, speedText } from "./progress.ts";
import { type OptionsOf, optionOf } from "./typed.ts";

const single = ["account", "wamid", "reference", "id", "conversationId", "sentAt", "metadata"];

/** Adds `track`: registers messages as the user's own, one by flags or many from a file. */
export function build(command: Command, io: Io): void {
  declare(command).action((options) =>
    options.file === undefined ? trackOne(command, options, io) : trackFile(command, options.file, options, io),
  );
}

type Options = OptionsOf<typeof declare>;

function declare(command: Command) {
  return withRelayOptions(command)
    .addOption(optionOf("--file <path>", "register the messages of a CSV or NDJSON file; - is standard input").conflicts(single))
    .option("--account <name>", "the account; required if there are several")
    .option("--wamid <wamid>", "the message's network id")
    .option("--reference <text>", "your own reference, such as an order number")
    .option("--id <id>", "the service's id of the message")
    .option("--conversation-id <id>", "the service's id of the conversation")
    .option("--sent-at <time>", "when it was sent, such as 2026-11-20T08:00:00Z (default: now)", time)
    .option("--metadata <key=value>", "your own data, for routes and payload: enriched; may be repeated", pairs("key=value"), {})
    .option("--show-pii", "show wamids and phone numbers in clear")
    .option("--json", "print {created, known} as JSON; for a file {lines, created, known, conflict, invalid}")
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

/** Registers the message that the options name. */
async function trackOne(command: Command, options: Options, io: Io): Promise<void> {
  const { account, wamid, reference, id, conversationId, sentAt, metadata: given } = options;
  if (wamid === undefined) command.error("error: required option '--wamid <wamid>' not specified (or --file)");
  // It would register a message of that name, which never gets an event.
  if (/^wamid:[0-9a-f]{12}$/.test(wamid))
    command.error(`error: --wamid: ${wamid} is masked. "wamid-relay explain ${wamid} --show-pii" prints the wamid to register`);
  const registration = {
    ...(account === undefined ? {} : { account }),
    wamid,
    reference,
    id,
    conversationId,
    sentAt,
    ...(Object.keys(given).length === 0 ? {} : { metadata: given }),
  };
  const { withRelay } = await import("./reach-relay.ts");
  const { result } = await withRelay(command, options, io, "track", (client) => client.track(registration));
  const [created, known] = result === "created" ? [1, 0] : [0, 1];
  print(io, options, { created, known }, () => [created === 1 ? "registered" : "was registered already; what was new has been added"]);
}

/** Registers the messages of a file, and lists each line that the relay refuses. */
async function trackFile(command: Command, path: string, options: Options, io: Io): Promise<void> {
  const [{ openRegistrationFile }, { withRelay }] = await Promise.all([import("./track-file.ts"), import("./reach-relay.ts")]);
  const file = openRegistrationFile(path);
  const startedAt = performance.now();
  const bar = createProgressBar(io, options.json === true);
  const sums = await withRelay(command, options, io, "track", (client) =>
    trackLines(client, file.lines, (soFar, refused) => {
      if (refused.length > 0) bar.leave();
      for (const { line, wamid, error } of refused) io.err(`line ${line}: ${wamid === null ? "" : `${wamid}: `}${error}`);
      const part = file.size === null ? null : file.read() / Math.max(1, file.size);
      bar.show(part, speedText(soFar.lines, "lines", performance.now() - startedAt, soFar.conflict + soFar.invalid, "refused"));
    }),
  );
  const { lines, created, known, conflict, invalid } = sums;
  print(io, options, sums, () => [
    `${lines} lines: ${created} registered, ${known} registered already, ${conflict} in conflict, ${invalid} invalid`,
  ]);
  if (conflict + invalid > 0) throw new CommandFailed(`${conflict + invalid} of ${lines} lines were refused`);
}

interface RefusedLine {
  readonly line: number;
  readonly wamid: string | null;
  readonly error: string;
}

/** Of one request. */
const mostLines = 1_000;
const mostLength = 1024 * 1024;

/**
 * Registers the lines in batches. After each, `step` receives the sums so far and the lines refused in it, in order.
 * Throws {@link CommandFailed} with the number of the line when it cannot go on.
 */
async function trackLines(
  client: ControlClient,
  lines: AsyncIterable<Line>,
  step: (sums: TrackSums, refused: readonly RefusedLine[]) => void,
): Promise<TrackSums> {
  const sums = { lines: 0, created: 0, known: 0, conflict: 0, invalid: 0 };

  async function register(piece: readonly Line[]): Promise<void> {
    const given = piece.flatMap((each) => ("text" in each ? [each] : []));
    const refused: RefusedLine[] = [];
    const count = (result: keyof TrackSums) => {
      sums.lines += 1;
      sums[result] += 1;
    };
    for (const each of piece) {
      if (!("fault" in each)) continue;
      count("invalid");
      refused.push({ line: each.line, wamid: null, error: each.fault });
    }
    const report = given.length === 0 ? [] : await post(client, given);
    for (const { line, wamid, result, error } of report) {
      count(result);
      if (error !== undefined) refused.push({ line, wamid, error });
    }
    step(
      sums,
      refused.toSorted((a, b) => a.line - b.line),
    );
    if (report.stopped !== undefined) throw new CommandFailed(stoppedText(report.stopped.line, report.stopped.error));
  }

  for await (const piece of piecesOf(lines)) await register(piece);
  return sums;
}

type Report = TrackedLine[] & { stopped?: { line: number; error: string } };

/** The report on these lines, with their numbers in the file. */
async function post(client: ControlClient, given: readonly { readonly line: number; readonly text: string }[]): Promise<Report> {
  const [{ failureOf }, { RelayClientError }] = await Promise.all([import("./reach-relay.ts"), import("../client/connection.ts")]);
  const all = await client.trackLines(given.map(({ text }) => `${text}\n`).join("")).catch((error: unknown) => {
    const failure = failureOf(error);
    const isTemporary = error instanceof RelayClientError && (error.status === 0 || error.status === 503);
    throw isTemporary && failure instanceof CommandFailed ? new CommandFailed(stoppedText(given[0]?.line ?? 1, failure.message)) : failure;
  });
  const numberOf = (line: number) => given[line - 1]?.line ?? 0;
  const report: Report = (all.slice(0, -1) as TrackedLine[]).map((each) => ({ ...each, line: numberOf(each.line) }));
  const last = all.at(-1) as TrackEnd;
  if (last.stoppedAt !== undefined) report.stopped = { line: numberOf(last.stoppedAt), error: last.error ?? "it was stopped" };
  return report;
}

function stoppedText(line: number, why: string): string {
  return `${why}; stopped at line ${line}. What came before is registered: run it again, or go on from there`;
}

async function* piecesOf(lines: AsyncIterable<Line>): AsyncGenerator<Line[], void> {
  let piece: Line[] = [];
  let length = 0;
  for await (const line of lines) {
    piece.push(line);
    length += "text" in line ? line.text.length : 0;
    if (piece.length < mostLines && length < mostLength) continue;
    yield piece;
    piece = [];
    length = 0;
  }
  if (piece.length > 0) yield piece;
}
