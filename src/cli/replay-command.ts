import { type Command, Option } from "commander";
import type { ControlClient } from "./control-client.ts";
import { type ReplayCount, readAnswer, replayCountSchema, replayedSchema } from "./control-views.ts";
import { CommandFailed, type Io } from "./io.ts";
import { printable, printableJson } from "./printable.ts";
import { expectDone, type RelayOptions, withRelayOptions, withWriting } from "./reach-relay.ts";
import { type TimeOptions, timeFilter, timeOptions } from "./time-options.ts";

interface Options extends RelayOptions, TimeOptions {
  readonly route?: string;
  readonly state: string;
  readonly errorCode?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

type Filter = Readonly<Record<string, unknown>>;

/** More than this many are not sent again without `--yes`. */
const askFrom = 1_000;
/** Deliveries of one call: progress can be shown after each. */
const callLimit = 5_000;
const progressEveryMs = 2_000;

/** Adds `replay`: everything a filter means, once more. */
export function addReplayCommand(program: Command, io: Io): void {
  const replay = withRelayOptions(program.command("replay"));
  replay
    .description("send again all deliveries that match: dead letters, or delivered ones too")
    .option("--route <name>", "of this route only")
    .addOption(new Option("--state <word>", "which ones").choices(["dead", "delivered", "any"]).default("dead"))
    .option("--error-code <code>", "whose event has this error code, such as 131026");
  for (const option of timeOptions()) replay.addOption(option);
  replay
    .option("--dry-run", "only count")
    .option("--yes", `do it without asking; needed for delivered ones and for more than ${askFrom} when nobody can be asked`)
    .option("--json", "print {matching, replayed} as JSON")
    .addHelpText(
      "after",
      `
Each goes out under its old id, in order per message, and has all its attempts again. What settles while a
replay runs is not taken up again. Ended in the middle, it can be run again: what was sent is no longer dead.

Examples:
  wamid-relay replay --dry-run
  wamid-relay replay --route failures-to-crm --since 2d
  wamid-relay replay --state delivered --from 2026-11-20T08:00:00Z --to 2026-11-20T09:00:00Z --yes`,
    )
    .action((options: Options) => replayMatching(replay, options, io));
}

async function replayMatching(command: Command, options: Options, io: Io): Promise<void> {
  const { route, state, errorCode } = options;
  const filter: Filter = {
    states: state === "any" ? ["dead", "delivered"] : [state],
    ...(route === undefined ? {} : { route }),
    ...(errorCode === undefined ? {} : { errorCode }),
    ...timeFilter(options, Date.now()),
  };
  await withWriting(command, options, io, "replay", async (client) => {
    const counted = readAnswer(replayCountSchema, expectDone(await client.request("POST", "/v1/replay", { ...filter, dryRun: true })));
    for (const line of remarks(counted)) io.err(line);
    if (options.dryRun === true || counted.matching === 0) {
      if (options.json === true) io.out(printableJson({ ...counted, replayed: 0 }));
      else for (const line of countLines(counted)) io.out(line);
      return;
    }
    if (options.yes !== true && (state !== "dead" || counted.matching > askFrom)) await confirm(counted, state);
    const replayed = await replayAll(client, filter, counted.matching, io);
    if (options.json === true) io.out(printableJson({ ...counted, replayed }));
    else io.out(`${replayed} of ${counted.matching} deliveries go out again`);
  });
}

async function replayAll(client: ControlClient, filter: Filter, matching: number, io: Io): Promise<number> {
  let replayed = 0;
  let cursor: string | null = null;
  let shownAt = performance.now();
  for (;;) {
    const body: Filter = { ...filter, cursor, limit: callLimit };
    const step = readAnswer(replayedSchema, expectDone(await client.request("POST", "/v1/replay", body)));
    replayed += step.replayed;
    // One that is stopping answers at once and does nothing.
    if (step.next !== null && step.next === cursor)
      throw new CommandFailed(`the relay is stopping; ${replayed} of ${matching} deliveries go out again`);
    cursor = step.next;
    if (cursor === null) return replayed;
    if (performance.now() - shownAt < progressEveryMs) continue;
    io.err(`${replayed} of ${matching}`);
    shownAt = performance.now();
  }
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

async function confirm({ matching }: ReplayCount, state: string): Promise<void> {
  const what = `${matching} deliveries${state === "dead" ? "" : ", delivered ones among them,"} would go out again`;
  if (!process.stdin.isTTY || !process.stderr.isTTY) throw new CommandFailed(`${what}; add --yes to do it`);
  const { createInterface } = await import("node:readline/promises");
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  // Closed by Ctrl-D or Ctrl-C: nobody said yes.
  const closed = new Promise<string>((resolve) => terminal.once("close", () => resolve("")));
  const answer = await Promise.race([terminal.question(`${what}. Do it? [y/N] `), closed]);
  terminal.close();
  if (!/^y(es)?$/i.test(answer.trim())) throw new CommandFailed("nothing was sent");
}
