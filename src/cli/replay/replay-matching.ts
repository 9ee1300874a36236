import { type Command, InvalidArgumentError } from "commander";
import { rateSchema } from "../../event/units.ts";
import { type ReplayCount, readAnswer, replayCountSchema } from "../control-views.ts";
import { CommandFailed, type Io, stopSignal } from "../io.ts";
import { checkedOption } from "../options.ts";
import { printable, printableJson } from "../output.ts";
import { createProgressBar } from "../progress.ts";
import { expectDone, timeFilter, withWriting } from "../reach-relay.ts";
import { askFrom, type ReplayOptions } from "../replay-command.ts";
import { openCheckpoint } from "./checkpoint.ts";
import { type Filter, runReplay } from "./run-replay.ts";

/** Counts what matches, asks where it has to, and sends it again. */
export async function replayMatching(command: Command, options: ReplayOptions, io: Io): Promise<void> {
  const { state } = options;
  const rate = options.rate === undefined ? null : checkedOption(command, "rate", options.rate, perSecond);
  const asked = JSON.stringify(askedOf(options));
  const checkpoint = openCheckpoint(options.checkpoint);
  const before = options.resume === undefined ? checkpoint.read(asked) : null;
  const filter: Filter = before?.filter ?? filterOf(command, options);
  await withWriting(command, options, io, "replay", async (client) => {
    const counted = readAnswer(replayCountSchema, expectDone(await client.request("POST", "/v1/replay", { ...filter, dryRun: true })));
    for (const line of remarks(counted)) io.err(line);
    const cursor = options.resume ?? before?.cursor ?? null;
    if (options.dryRun === true || (counted.matching === 0 && cursor === null)) {
      if (options.json === true) io.out(printableJson({ ...counted, replayed: 0 }));
      else for (const line of countLines(counted, options)) io.out(line);
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
    else io.out(doneText(done + replayed, matching, options));
  });
}

function filterOf(command: Command, options: ReplayOptions): Filter {
  const { route, state, disposition, errorCode, source, event } = options;
  return {
    states: state === "any" ? ["dead", "delivered"] : [state],
    ...(disposition === undefined ? {} : { disposition }),
    ...(route === undefined ? {} : { route }),
    ...(errorCode === undefined ? {} : { errorCode }),
    ...(source === undefined ? {} : { source }),
    ...(event === undefined ? {} : { event }),
    ...timeFilter(command, options, Date.now()),
  };
}

/** The options that say what is meant, without the moment at which they were given. */
function askedOf({ route, state, disposition, errorCode, source, event, from, to, since }: ReplayOptions): unknown {
  return { route, state, disposition, errorCode, source, event, from, to, since };
}

function isRelease({ disposition }: ReplayOptions): boolean {
  return disposition === "quarantined";
}

function doneText(replayed: number, matching: number, options: ReplayOptions): string {
  return isRelease(options)
    ? `${replayed} of ${matching} quarantined events were released`
    : `${replayed} of ${matching} deliveries go out again`;
}

function leftText(replayed: number, matching: number, place: string | null, options: ReplayOptions): string {
  const { checkpoint } = options;
  const where =
    place === null
      ? "run it again"
      : `go on with the same options and ${checkpoint === undefined ? `--resume ${place}` : "the same --checkpoint"}`;
  return `${doneText(replayed, matching, options)}; ${where}`;
}

function countLines({ matching, routes }: ReplayCount, options: ReplayOptions): string[] {
  if (isRelease(options)) return [`${matching} quarantined events are valid now and can be released`];
  return [
    `${matching} deliveries match${matching === 0 ? "" : ":"}`,
    ...routes.map((entry) => `  ${printable(entry.route)}: ${entry.matching}`),
  ];
}

function remarks({ routes, notSent, invalid }: ReplayCount): string[] {
  return [
    ...invalid.map(({ reason, events }) => `note: ${events} stay in quarantine: ${printable(reason)}`),
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

async function confirm({ matching }: ReplayCount, options: ReplayOptions): Promise<void> {
  const { state, disposition } = options;
  const kind =
    disposition === "ignored" || disposition === "filtered"
      ? ` of ${disposition} events`
      : state === "dead"
        ? ""
        : ", delivered ones among them,";
  const what = isRelease(options)
    ? `${matching} quarantined events would be released and go to the routes`
    : `${matching} deliveries${kind} would go out again`;
  if (!process.stdin.isTTY || !process.stderr.isTTY) throw new CommandFailed(`${what}; add --yes to do it`);
  const { createInterface } = await import("node:readline/promises");
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  // Closed by Ctrl-D or Ctrl-C: nobody said yes.
  const closed = new Promise<string>((resolve) => terminal.once("close", () => resolve("")));
  const answer = await Promise.race([terminal.question(`${what}. Do it? [y/N] `), closed]);
  terminal.close();
  if (!/^y(es)?$/i.test(answer.trim())) throw new CommandFailed(isRelease(options) ? "nothing was released" : "nothing was sent");
}

function perSecond(text: string): number {
  const parsed = rateSchema.safeParse(text);
  if (!parsed.success) throw new InvalidArgumentError("It must be a rate, such as 50/s, 300/m or 1000/h.");
  return parsed.data;
}
