import type { Command } from "commander";
import { z } from "zod";
import type { ControlClient } from "./control-client.ts";
import { createdSchema, readAnswer } from "./control-views.ts";
import { CommandFailed, type Io } from "./io.ts";
import { printable, printableJson, privateView, withCommas } from "./output.ts";
import { createProgressBar } from "./progress.ts";
import { expectDone, withWriting } from "./reach-relay.ts";
import type { TrackOptions } from "./track.ts";
import { type FileLine, openRegistrationFile } from "./track-file.ts";

/** Registers the message that the options name. */
export async function trackOne(command: Command, options: TrackOptions, io: Io): Promise<void> {
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
  const answer = await withWriting(command, options, io, "track", (client) => client.request("POST", "/v1/messages/track", registration));
  if (answer.status === 409)
    throw new CommandFailed(printable(privateView(options.showPii).text((answer.json as { error: string }).error)));
  const { created, known } = readAnswer(createdSchema, expectDone(answer));
  if (options.json === true) io.out(printableJson({ created, known }));
  else io.out(created === 1 ? "registered" : "was registered already; what was new has been added");
}

/** Registers the messages of a file, and lists each line that the relay refuses. */
export async function trackFile(command: Command, path: string, options: TrackOptions, io: Io): Promise<void> {
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

interface TrackSums {
  readonly lines: number;
  readonly created: number;
  readonly known: number;
  readonly conflict: number;
  readonly invalid: number;
}

interface RefusedLine {
  readonly line: number;
  readonly wamid: string | null;
  readonly error: string;
}

/** Of one request. */
const mostLines = 1_000;
const mostLength = 1024 * 1024;

const reportLine = z.looseObject({
  line: z.number(),
  wamid: z.string().nullable(),
  result: z.enum(["created", "known", "conflict", "invalid"]),
  error: z.string().optional(),
});
const lastLine = z.looseObject({ lines: z.number(), stoppedAt: z.number().optional(), error: z.string().optional() });

/**
 * Registers the lines in batches. After each, `step` receives the sums so far and the lines refused in it, in order.
 * Throws {@link CommandFailed} with the number of the line when it cannot go on.
 */
async function trackLines(
  client: ControlClient,
  lines: AsyncIterable<FileLine>,
  step: (sums: TrackSums, refused: readonly RefusedLine[]) => void,
): Promise<TrackSums> {
  const sums = { lines: 0, created: 0, known: 0, conflict: 0, invalid: 0 };

  async function register(piece: readonly FileLine[]): Promise<void> {
    const given = piece.flatMap((each) => ("json" in each ? [each] : []));
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

type Report = z.infer<typeof reportLine>[] & { stopped?: { line: number; error: string } };

/** The report on these lines, with their numbers in the file. */
async function post(client: ControlClient, given: readonly { readonly line: number; readonly json: string }[]): Promise<Report> {
  const first = given[0]?.line ?? 1;
  const answer = await client.postLines("/v1/messages/track", given.map(({ json }) => `${json}\n`).join("")).catch((error) => {
    throw error instanceof CommandFailed ? new CommandFailed(stoppedText(first, error.message), { cause: error }) : error;
  });
  if (answer.status === 503)
    throw new CommandFailed(stoppedText(first, (answer.json as { error?: string }).error ?? "the relay answered 503"));
  const all = readAnswer(z.array(z.unknown()), expectDone(answer));
  const numberOf = (line: number) => given[line - 1]?.line ?? 0;
  const report: Report = all.slice(0, -1).map((each) => {
    const read = readAnswer(reportLine, each);
    return { ...read, line: numberOf(read.line) };
  });
  const last = readAnswer(lastLine, all.at(-1));
  if (last.stoppedAt !== undefined) report.stopped = { line: numberOf(last.stoppedAt), error: last.error ?? "it was stopped" };
  return report;
}

function stoppedText(line: number, why: string): string {
  return `${why}; stopped at line ${line}. What came before is registered: run it again, or go on from there`;
}

async function* piecesOf(lines: AsyncIterable<FileLine>): AsyncGenerator<FileLine[], void> {
  let piece: FileLine[] = [];
  let length = 0;
  for await (const line of lines) {
    piece.push(line);
    length += "json" in line ? line.json.length : 0;
    if (piece.length < mostLines && length < mostLength) continue;
    yield piece;
    piece = [];
    length = 0;
  }
  if (piece.length > 0) yield piece;
}

interface TrackProgress {
  /** `part`: how much of the file has been read, from 0 to 1; null: unknown. */
  show(sums: TrackSums, part: number | null): void;
  /** What is on the terminal stays: something else is printed next. */
  leave(): void;
}

/** The bar of `track --file`: how many lines, how fast, and how many were refused. */
export function createTrackProgress(io: Io, isJson: boolean, now: () => number): TrackProgress {
  const startedAt = now();
  const bar = createProgressBar(io, isJson, now);
  return {
    show(sums, part) {
      const seconds = (now() - startedAt) / 1000;
      const speed = seconds < 0.2 ? "" : `  ${withCommas(Math.round(sums.lines / seconds))}/s`;
      const refused = sums.conflict + sums.invalid;
      bar.show(part, `${withCommas(sums.lines)} lines${speed}${refused === 0 ? "" : `  ${withCommas(refused)} refused`}`);
    },
    leave: bar.leave,
  };
}
