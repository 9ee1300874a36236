import { setTimeout as wait } from "node:timers/promises";
import type { Command } from "commander";
import type { ReplayCount, ReplayFilter } from "../client/relay-client.ts";
import { chosen, replayFilters, withFilters } from "./filters.ts";
import { CommandFailed, type Io, stopSignal } from "./io.ts";
import { choice, matching, rate as rateOf, withRelayOptions } from "./options.ts";
import { counted, print } from "./output.ts";
import { createProgressBar } from "./progress.ts";
import { noteWithoutRelay, withRelay } from "./relay.ts";
import type { OptionsOf } from "./typed.ts";

/** More than this many are not sent again without `--yes`. */
const askFrom = 1_000;

export function build(command: Command, io: Io): void {
  declare(command).action((options) => replay(command, options, io));
}

type Options = OptionsOf<typeof declare>;

function declare(command: Command) {
  const described = withRelayOptions(command).addOption(
    choice("--state <word>", "which ones", ["dead", "delivered", "any", "waiting"], "dead"),
  );
  return withFilters(described, replayFilters)
    .option("--rate <rate>", "most deliveries per time, such as 50/s or 300/m", rateOf)
    .option("--dry-run", "only count")
    .option(
      "--resume <place>",
      "continue at the place that an ended replay printed, with the same options",
      place,
    )
    .option(
      "--yes",
      `do not ask; required for delivered ones and for more than ${askFrom} without a terminal`,
    )
    .option("--json", "print {matching, replayed} as JSON")
    .addHelpText(
      "after",
      `
Without options it sends every dead letter. It first counts, and asks before it sends delivered ones or more than 1,000.
Deliveries keep their id and the order of their message, get all attempts again, and carry the header webhook-replay: true.
Proxied exchanges and deliveries of routes that are not in the settings are counted, and not sent.

Effects of the options:
  --state waiting            sends now what waits for its next attempt; the place in the schedule stays
  --disposition filtered     routes the events again by the routes of now; no route gets an event twice
  --disposition ignored      the same, for messages that were registered too late
  --disposition quarantined  releases events that are valid now; the others stay with their reason
  --disposition unassigned   releases events whose business number has an account now

Examples:
  wamid-relay replay --dry-run
  wamid-relay replay --route failures-to-crm --since 2d
  wamid-relay replay --route failures-to-crm --state waiting --cause 503
  wamid-relay replay --disposition ignored --since 6h --yes
  wamid-relay replay --disposition quarantined --dry-run
  wamid-relay replay --disposition quarantined --event 1234 --yes
  wamid-relay replay --state delivered --from 2026-11-20T08:00:00Z --to 2026-11-20T09:00:00Z --yes --rate 50/s`,
    );
}

const place = matching(
  /^\d{1,15}\.\d{1,15}\.-?\d{1,16}\..{0,200}$/,
  "It must be the place that an ended replay printed.",
);

/** Deliveries of one call: progress can be shown after each. */
const callLimit = 5_000;
/** With a rate, a call takes what is due in this time. */
const paceMs = 500;

async function replay(command: Command, options: Options, io: Io): Promise<void> {
  const { state } = options;
  const { failureOf } = await import("./control-client.ts");
  const { rate = null } = options;
  const states: ReplayFilter["states"] = state === "any" ? ["dead", "delivered"] : [state];
  const filter = { states, ...chosen(command, options, replayFilters) };
  const words = wordsOf(options);
  await withRelay(command, options, io, "replay", async (client) => {
    const found = await client.countReplay(filter);
    const { matching } = found;
    for (const line of remarks(found, options)) io.err(line);
    const cursor = options.resume ?? null;
    if (options.dryRun === true || (matching === 0 && cursor === null)) {
      print(io, options, { ...found, replayed: 0 }, words.counted);
      return;
    }
    const isPlain = (state === "dead" || state === "waiting") && options.disposition === undefined;
    if (options.yes !== true && cursor === null && (!isPlain || matching > askFrom))
      await confirm(words.would(matching), words.refused);
    const bar = createProgressBar(io, options.json === true);
    let place = cursor;
    let replayed = 0;
    const left = (why: string) => {
      const where =
        place === null ? "run it again" : `go on with the same options and --resume ${place}`;
      return new CommandFailed(`${why}; ${replayed} of ${matching} ${words.done}; ${where}`);
    };
    const stopped = stopSignal();
    try {
      const limit =
        rate === null
          ? callLimit
          : Math.max(1, Math.min(callLimit, Math.round((rate * paceMs) / 1000)));
      const startedAt = performance.now();
      for await (const step of client.replaySteps(filter, { cursor, limit, signal: stopped })) {
        ({ replayed, cursor: place } = step);
        bar.show(
          matching === 0 ? 1 : Math.min(1, replayed / matching),
          `${replayed} of ${matching}`,
        );
        const early =
          rate === null || place === null
            ? 0
            : (replayed / rate) * 1000 - (performance.now() - startedAt);
        if (early > 0) await wait(early, null, { signal: stopped }).catch(() => {});
      }
    } catch (error) {
      const failure = failureOf(error);
      throw failure instanceof CommandFailed ? left(failure.message) : failure;
    } finally {
      bar.end();
    }
    if (place !== null) throw left("stopped");
    print(io, options, { ...found, replayed }, () => [`${replayed} of ${matching} ${words.done}`]);
    noteWithoutRelay(client, io);
  });
}

function wordsOf({ state, disposition }: Options) {
  if (disposition === "quarantined" || disposition === "unassigned") {
    const events = (count: number): string => counted(count, `${disposition} event`);
    return {
      counted: ({ matching }: ReplayCount) => [`${events(matching)} can be released now`],
      would: (matching: number) => `${events(matching)} would be released and go to the routes`,
      done: `${disposition} events were released`,
      refused: "nothing was released",
    };
  }
  const isRoutedAgain = disposition === "ignored" || disposition === "filtered";
  const kind = isRoutedAgain
    ? ` of ${disposition} events`
    : state === "dead"
      ? ""
      : ", delivered ones among them,";
  return {
    counted: ({ matching, routes }: ReplayCount) => [
      `${counted(matching, "delivery")} ${matching === 1 ? "matches" : "match"}${matching === 0 ? "" : ":"}`,
      ...routes.map((entry) => `  ${entry.route}: ${entry.matching}`),
    ],
    would: (matching: number) => `${counted(matching, "delivery")}${kind} would go out again`,
    done: "deliveries go out again",
    refused: "nothing was sent",
  };
}

function remarks(
  { routes, notSent, invalid = [] }: ReplayCount,
  { disposition }: Options,
): string[] {
  const still = disposition === "unassigned" ? "unassigned" : "in quarantine";
  return [
    ...invalid.map(
      ({ reason, events }) => `note: ${counted(events, "event")} left ${still}: ${reason}`,
    ),
    ...routes
      .filter(({ stopped }) => stopped !== null)
      .map(
        ({ route }) =>
          `warning: the destination of ${route} is stopped; start it with: wamid-relay resume ${route}`,
      ),
    ...notSent.map(({ route, matching }) =>
      route.startsWith("proxy:")
        ? `note: ${counted(matching, "exchange")} of ${route} not sent: the step has its answer`
        : `warning: ${counted(matching, "delivery")} of ${route} not sent: the route is not in the settings`,
    ),
  ];
}

async function confirm(what: string, refused: string): Promise<void> {
  if (!process.stdin.isTTY || !process.stderr.isTTY)
    throw new CommandFailed(`${what}; add --yes to do it`);
  const { createInterface } = await import("node:readline/promises");
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  // Ctrl-D and Ctrl-C close the prompt: that is a no.
  const closed = new Promise<string>((resolve) => terminal.once("close", () => resolve("")));
  const answer = await Promise.race([terminal.question(`${what}. Do it? [y/N] `), closed]);
  terminal.close();
  if (!/^y(es)?$/i.test(answer.trim())) throw new CommandFailed(refused);
}
