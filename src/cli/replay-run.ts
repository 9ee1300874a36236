import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { type Command, InvalidArgumentError } from "commander";
import { z } from "zod";
import { rateSchema } from "../model/units.ts";
import type { ControlClient } from "./control-client.ts";
import { type ReplayCount, readAnswer, replayCountSchema, replayedSchema } from "./control-views.ts";
import { CommandFailed, type Io, stopSignal } from "./io.ts";
import { checkedOption } from "./options.ts";
import { printable, printableJson } from "./output.ts";
import { createProgressBar } from "./progress.ts";
import { expectDone, timeFilter, withWriting } from "./reach-relay.ts";
import { askFrom, type ReplayOptions } from "./replay.ts";

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
    // Replayed deliveries no longer match, so the first count is the total.
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

/** The options that select deliveries, independent of the current time. */
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
  // Ctrl-D and Ctrl-C close the prompt: that is a no.
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

type Filter = Readonly<Record<string, unknown>>;

interface ReplayRun {
  readonly client: ControlClient;
  readonly filter: Filter;
  /** Start position; null: the beginning. */
  readonly cursor: string | null;
  /** Deliveries a second; null: as fast as it goes. */
  readonly rate: number | null;
  /** After each call: how many in this run, and where the next begins. */
  readonly moved: (replayed: number, cursor: string | null) => void;
  /** Aborted: it ends after the call in flight. */
  readonly stop: AbortSignal;
}

/** Deliveries of one call: progress can be shown after each. */
const callLimit = 5_000;
/** With a rate, a call takes what is due in this time. */
const paceMs = 500;

/** Replays until all is done or `stop` aborts; returns the count, and the position to continue at (null: done). */
async function runReplay(run: ReplayRun): Promise<{ readonly replayed: number; readonly cursor: string | null }> {
  const { client, filter, rate, moved, stop } = run;
  const limit = rate === null ? callLimit : Math.max(1, Math.min(callLimit, Math.round((rate * paceMs) / 1000)));
  const startedAt = performance.now();
  let replayed = 0;
  let { cursor } = run;
  for (;;) {
    const body: Filter = { ...filter, cursor, limit };
    const step = readAnswer(replayedSchema, expectDone(await client.request("POST", "/v1/replay", body)));
    replayed += step.replayed;
    // A relay that is stopping answers at once without progress.
    if (step.next !== null && step.next === cursor) throw new CommandFailed("the relay is stopping");
    cursor = step.next;
    moved(replayed, cursor);
    if (cursor === null || stop.aborted) return { replayed, cursor };
    const early = rate === null ? 0 : (replayed / rate) * 1000 - (performance.now() - startedAt);
    if (early > 0) await wait(early, null, { signal: stop }).catch(() => {});
    if (stop.aborted) return { replayed, cursor };
  }
}

const checkpointSchema = z.object({
  /** The options that select deliveries, as given. */
  asked: z.string(),
  filter: z.record(z.string(), z.unknown()),
  matching: z.number(),
  replayed: z.number(),
  cursor: z.string().nullable(),
});
type CheckpointState = z.infer<typeof checkpointSchema>;

/** How far a replay has come, in a file that outlives the command. */
interface Checkpoint {
  /** Null when there is none. Throws {@link CommandFailed} for one of another replay. */
  read(asked: string): CheckpointState | null;
  write(state: CheckpointState): void;
  remove(): void;
}

function openCheckpoint(path: string | undefined): Checkpoint {
  if (path === undefined) return { read: () => null, write: () => {}, remove: () => {} };
  return {
    read(asked) {
      if (!existsSync(path)) return null;
      const parsed = checkpointSchema.safeParse(jsonOf(path));
      if (!parsed.success) throw new CommandFailed(`${path} is no checkpoint of a replay; remove it to begin anew`);
      if (parsed.data.asked !== asked)
        throw new CommandFailed(`${path} is the checkpoint of a replay with other options; remove it to begin anew`);
      return parsed.data;
    },
    write(state) {
      // Renamed, so that a crash leaves the one before.
      writeFileSync(`${path}.new`, `${JSON.stringify(state)}\n`);
      renameSync(`${path}.new`, path);
    },
    remove: () => rmSync(path, { force: true }),
  };
}

function jsonOf(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as unknown;
  } catch {
    return null;
  }
}
