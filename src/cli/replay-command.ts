import { type Command, InvalidArgumentError, Option } from "commander";
import { rateSchema } from "../event/units.ts";
import { type ReplayCount, readAnswer, replayCountSchema } from "./control-views.ts";
import { CommandFailed, type Io } from "./io.ts";
import { printable, printableJson } from "./printable.ts";
import { createProgressBar } from "./progress-bar.ts";
import { expectDone, type RelayOptions, withRelayOptions, withWriting } from "./reach-relay.ts";
import { openCheckpoint } from "./replay/checkpoint.ts";
import { type Filter, runReplay } from "./replay/run-replay.ts";
import { stopSignal } from "./stop-signal.ts";
import { type TimeOptions, timeFilter, timeOptions } from "./time-options.ts";

interface Options extends RelayOptions, TimeOptions {
  readonly route?: string;
  readonly state: string;
  readonly errorCode?: string;
  readonly disposition?: string;
  readonly rate?: number;
  readonly resume?: string;
  readonly checkpoint?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

/** More than this many are not sent again without `--yes`. */
const askFrom = 1_000;

/** Adds `replay`: everything a filter means, once more. */
export function addReplayCommand(program: Command, io: Io): void {
  const replay = withRelayOptions(program.command("replay"));
  replay
    .description("send again all deliveries that match: dead letters, or delivered ones too")
    .option("--route <name>", "of this route only")
    .addOption(new Option("--state <word>", "which ones").choices(["dead", "delivered", "any"]).default("dead"))
    .addOption(
      new Option("--disposition <word>", "of events with this disposition: filtered and ignored ones are judged anew").choices([
        "forwarded",
        "filtered",
        "ignored",
      ]),
    )
    .option("--error-code <code>", "whose event has this error code, such as 131026");
  for (const option of timeOptions()) replay.addOption(option);
  replay
    .option("--rate <rate>", "at most so many, such as 50/s or 300/m", perSecond)
    .option("--dry-run", "only count")
    .addOption(new Option("--resume <place>", "go on at the place that an ended replay said, with the same options").argParser(place))
    .option("--checkpoint <file>", "remember there how far it is, and go on from there")
    .option("--yes", `do it without asking; needed for delivered ones and for more than ${askFrom} when nobody can be asked`)
    .option("--json", "print {matching, replayed} as JSON")
    .addHelpText(
      "after",
      `
Each goes out under its old id, in order per message, and has all its attempts again. What settles while a
replay runs is not taken up again. Ctrl-C ends it after the step under way, and says how to go on; with --checkpoint
the same command goes on, also after a crash. Downstream sees the header webhook-replay: true.

Examples:
  wamid-relay replay --dry-run
  wamid-relay replay --route failures-to-crm --since 2d
  wamid-relay replay --disposition ignored --since 6h --yes
  wamid-relay replay --state delivered --from 2026-11-20T08:00:00Z --to 2026-11-20T09:00:00Z --yes --rate 50/s --checkpoint replay.json`,
    )
    .action((options: Options) => replayMatching(replay, options, io));
}

async function replayMatching(command: Command, options: Options, io: Io): Promise<void> {
  const { state, rate = null } = options;
  const asked = JSON.stringify(askedOf(options));
  const checkpoint = openCheckpoint(options.checkpoint);
  const before = options.resume === undefined ? checkpoint.read(asked) : null;
  const filter: Filter = before?.filter ?? filterOf(options);
  await withWriting(command, options, io, "replay", async (client) => {
    const counted = readAnswer(replayCountSchema, expectDone(await client.request("POST", "/v1/replay", { ...filter, dryRun: true })));
    for (const line of remarks(counted)) io.err(line);
    const cursor = options.resume ?? before?.cursor ?? null;
    if (options.dryRun === true || (counted.matching === 0 && cursor === null)) {
      if (options.json === true) io.out(printableJson({ ...counted, replayed: 0 }));
      else for (const line of countLines(counted)) io.out(line);
      return;
    }
    const isPlain = state === "dead" && options.disposition === undefined;
    if (options.yes !== true && cursor === null && (!isPlain || counted.matching > askFrom)) await confirm(counted, options);
    const done = before?.replayed ?? 0;
    // While it runs less and less matches; what counted at the beginning is the whole.
    const matching = before?.matching ?? counted.matching;
    const bar = createProgressBar(io, options.json === true);
    let place = cursor;
    let replayed = 0;
    const stopped = new AbortController();
    void stopSignal().then(() => stopped.abort());
    const moved = (count: number, next: string | null) => {
      [replayed, place] = [count, next];
      checkpoint.write({ asked, filter, matching, replayed: done + count, cursor: next });
      bar.show(matching === 0 ? 1 : Math.min(1, (done + count) / matching), `${done + count} of ${matching}`);
    };
    try {
      await runReplay({ client, filter, cursor, rate, moved, stop: stopped.signal });
    } catch (error) {
      bar.end();
      if (error instanceof CommandFailed) throw new CommandFailed(`${error.message}; ${leftText(replayed, matching, place, options)}`);
      throw error;
    }
    bar.end();
    if (place !== null) throw new CommandFailed(`stopped; ${leftText(replayed, matching, place, options)}`);
    checkpoint.remove();
    if (options.json === true) io.out(printableJson({ ...counted, matching, replayed: done + replayed }));
    else io.out(`${done + replayed} of ${matching} deliveries go out again`);
  });
}

function filterOf(options: Options): Filter {
  const { route, state, disposition, errorCode } = options;
  return {
    states: state === "any" ? ["dead", "delivered"] : [state],
    ...(disposition === undefined ? {} : { disposition }),
    ...(route === undefined ? {} : { route }),
    ...(errorCode === undefined ? {} : { errorCode }),
    ...timeFilter(options, Date.now()),
  };
}

/** The options that say what is meant, without the moment at which they were given. */
function askedOf({ route, state, disposition, errorCode, from, to, since }: Options): unknown {
  return { route, state, disposition, errorCode, from, to, since };
}

function leftText(replayed: number, matching: number, place: string | null, { checkpoint }: Options): string {
  const where =
    place === null
      ? "run it again"
      : `go on with the same options and ${checkpoint === undefined ? `--resume ${place}` : "the same --checkpoint"}`;
  return `${replayed} of ${matching} deliveries go out again; ${where}`;
}

function countLines({ matching, routes }: ReplayCount): string[] {
  return [
    `${matching} deliveries match${matching === 0 ? "" : ":"}`,
    ...routes.map((entry) => `  ${printable(entry.route)}: ${entry.matching}`),
  ];
}

function remarks({ routes, notSent }: ReplayCount): string[] {
  return [
    ...routes
      .filter(({ stopped }) => stopped !== null)
      .map(
        ({ route }) => `warning: the destination of ${printable(route)} is stopped; start it with: wamid-relay resume ${printable(route)}`,
      ),
    ...notSent.map(({ route, matching }) =>
      route.startsWith("proxy:")
        ? `note: ${matching} exchanges of ${printable(route)} match too and are over: the step was told`
        : `warning: ${matching} deliveries of ${printable(route)} match too, but it is not in the settings: they stay`,
    ),
  ];
}

async function confirm({ matching }: ReplayCount, { state, disposition }: Options): Promise<void> {
  const kind =
    disposition === "ignored" || disposition === "filtered"
      ? ` of ${disposition} events`
      : state === "dead"
        ? ""
        : ", delivered ones among them,";
  const what = `${matching} deliveries${kind} would go out again`;
  if (!process.stdin.isTTY || !process.stderr.isTTY) throw new CommandFailed(`${what}; add --yes to do it`);
  const { createInterface } = await import("node:readline/promises");
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  // Closed by Ctrl-D or Ctrl-C: nobody said yes.
  const closed = new Promise<string>((resolve) => terminal.once("close", () => resolve("")));
  const answer = await Promise.race([terminal.question(`${what}. Do it? [y/N] `), closed]);
  terminal.close();
  if (!/^y(es)?$/i.test(answer.trim())) throw new CommandFailed("nothing was sent");
}

function perSecond(text: string): number {
  const parsed = rateSchema.safeParse(text);
  if (!parsed.success) throw new InvalidArgumentError("It must be a rate, such as 50/s, 300/m or 1000/h.");
  return parsed.data;
}

function place(text: string): string {
  if (!/^\d{1,15}\.\d{1,15}\.\d{1,15}$/.test(text)) throw new InvalidArgumentError("It must be the place that an ended replay said.");
  return text;
}
