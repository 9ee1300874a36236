import { randomBytes } from "node:crypto";
import type { Command } from "commander";
import { describeFixture, type Fixture, FixtureRefused, truncatedFixture } from "../../sandbox/fixtures/fixture.ts";
import { findFixture, fixtureNames } from "../../sandbox/fixtures/fixture-files.ts";
import { fixturePosts } from "../../sandbox/fixtures/fixture-posts.ts";
import { createJudge } from "../../sandbox/fixtures/judge-answers.ts";
import { PathRefused, setPath, valueText } from "../../sandbox/fixtures/set-path.ts";
import { triggerScenarios } from "../../sandbox/fixtures/trigger-scenarios.ts";
import { createRandom } from "../../sandbox/random.ts";
import { CommandFailed, type Io } from "../io.ts";
import type { TriggerOptions } from "../trigger.ts";
import { fixtureFolders } from "./list.ts";
import { createOutcomeNotes, type Outcome } from "./outcome.ts";
import { type Posting, runPosts } from "./run-posts.ts";
import { runScenario } from "./run-scenario.ts";
import { createTriggerShow } from "./show.ts";
import { findTarget, type Target } from "./target.ts";

interface Triggered extends Outcome {
  readonly url: string;
  readonly seed: string;
  readonly tookMs: number;
  /** True when a signal ended it. */
  readonly stopped: boolean;
}

const usualConcurrency = 16;

/** Posts events made from one fixture. Throws {@link CommandFailed} when there is no such fixture or target. */
export async function triggerEvents(command: Command, name: string, options: TriggerOptions, io: Io): Promise<Triggered> {
  const fixture = preparedFixture(name, options);
  // Before anything is known of the source: what is no envelope and not called malformed is the request of an automation.
  const target = findTarget(command, options, fixture.event === null && isRequest(name) ? "automation-request" : "events", io);
  const { count = 1, wamid, keepIds = false, shuffle = false, duplicate = 0 } = options;
  const seed = options.seed ?? randomBytes(6).toString("hex");
  const posts = fixturePosts({
    fixture,
    random: createRandom(seed),
    now: Date.now,
    count,
    duplicate,
    shuffle,
    keepIds,
    fixed: new Set((options.set ?? []).map(({ path }) => path)),
    isRequest: target.source === null ? isRequest(name) : target.source.kind === "automation-request",
    ...(wamid === undefined ? {} : { wamid }),
  });
  const isOrdered = wamid !== undefined || keepIds;
  const more = {
    concurrency: options.concurrency ?? (isOrdered && !shuffle ? 1 : usualConcurrency),
    // An id that is not made anew may be in the store, and comes more than once when there are several events.
    known: keepIds || (options.set ?? []).some(({ path }) => path === "id"),
    total: duplicate > 0 && duplicate < 1 ? null : count * (1 + duplicate),
    showsWamids: !keepIds,
  };
  return run(options, io, target, seed, more, (posting) => runPosts(posts, posting, target.secrets[0]));
}

/** Posts a whole scenario. */
export async function triggerScenario(command: Command, name: string, options: TriggerOptions, io: Io): Promise<Triggered> {
  const scenario = triggerScenarios.find((each) => each.name === name);
  if (scenario === undefined) {
    throw new CommandFailed(`there is no scenario "${name}"; there are ${triggerScenarios.map((each) => each.name).join(", ")}`);
  }
  if (scenario.registersLate === true && options.url !== undefined) {
    command.error(`error: ${name} registers messages, so it needs the relay of the settings and not --url`);
  }
  const target = findTarget(command, options, "events", io);
  const seed = options.seed ?? randomBytes(6).toString("hex");
  const more = { concurrency: options.concurrency ?? scenario.concurrency, known: false, total: null, showsWamids: true };
  if (scenario.rotatesSecrets === true && target.secrets.length === 1) {
    io.err("note: there is one secret; with two, the old and the new one, both are shown to be taken");
  }
  const { config, count } = options;
  const of = { command, io, config, scenario, seed, start: Date.now(), ...(count === undefined ? {} : { messages: count }) };
  return run(options, io, target, seed, more, (posting) => runScenario(of, posting));
}

interface More {
  readonly concurrency: number;
  readonly known: boolean;
  readonly total: number | null;
  readonly showsWamids: boolean;
}

async function run(
  { rate, json = false }: TriggerOptions,
  io: Io,
  target: Target,
  seed: string,
  { concurrency, known, total, showsWamids }: More,
  post: (posting: Posting) => Promise<void>,
): Promise<Triggered> {
  const startedAt = performance.now();
  const judge = createJudge(target.isRelay ? "relay" : "any", { known });
  const notes = createOutcomeNotes();
  const show = createTriggerShow({ io, isJson: json, now: () => performance.now(), total, showsWamids });
  const stop = new AbortController();
  const onSignal = (): void => stop.abort();
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal);
  try {
    await post({ target, concurrency, rate, judge, notes, show, signal: stop.signal });
  } finally {
    process.off("SIGINT", onSignal).off("SIGTERM", onSignal);
  }
  show.leave();
  for (const fault of judge.ended()) notes.fault(fault);
  return { url: target.url, seed, tookMs: Math.round(performance.now() - startedAt), stopped: stop.signal.aborted, ...notes.outcome() };
}

/** The fixture with what the options change in it. */
function preparedFixture(name: string, { fixtures, truncated = false, set = [] }: TriggerOptions): Fixture {
  const folders = fixtureFolders(fixtures);
  try {
    const found = findFixture(name, folders);
    if (found === null) throw new CommandFailed(`there is no event "${name}"; there are ${[...fixtureNames(folders).keys()].join(", ")}`);
    const base = truncated ? truncatedFixture(found) : found;
    return describeFixture(
      name,
      set.reduce((text, { path, given }) => setPath(text, path, valueText(given)), base.text),
    );
  } catch (error) {
    if (error instanceof PathRefused) throw new CommandFailed(`--set: ${error.message}`);
    if (error instanceof FixtureRefused) throw new CommandFailed(error.message);
    throw error;
  }
}

const isRequest = (name: string): boolean => name.startsWith("automation-request");
