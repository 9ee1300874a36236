import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import type { Command } from "commander";
import { unknownName } from "../../model/nearest.ts";
import { systemClock } from "../../model/system-clock.ts";
import { ownPortOptions } from "../../net/tls.ts";
import {
  describeFixture,
  type Fixture,
  FixtureRefused,
  findFixture,
  fixtureNames,
  truncatedFixture,
  withPhoneNumberId,
} from "../../sandbox/fixtures/fixture.ts";
import { fixturePosts } from "../../sandbox/fixtures/fixture-posts.ts";
import { PathRefused, setPath, valueText } from "../../sandbox/fixtures/json-text.ts";
import { createJudge } from "../../sandbox/fixtures/judge-answers.ts";
import { scenarioPosts, splitAtRegistration, splitForSecrets, triggerScenarios } from "../../sandbox/fixtures/trigger-scenarios.ts";
import { createRandom } from "../../sandbox/random.ts";
import type { Post } from "../../sandbox/traffic/post.ts";
import type { PostResult } from "../../sandbox/traffic/post-result.ts";
import { createSender } from "../../sandbox/traffic/sender.ts";
import type { ControlClient } from "../control-client.ts";
import { CommandFailed, type Io, interruptible } from "../io.ts";
import { ownFixtures } from "../options.ts";
import { tableLines } from "../output.ts";
import { withRelay } from "../reach-relay.ts";
import type { TriggerOptions } from "./options.ts";
import { createOutcomeNotes, createTriggerShow, type OutcomeNotes } from "./output.ts";
import { findTarget, type Target } from "./target.ts";

export type Triggered = Awaited<ReturnType<typeof run>>;

const usualConcurrency = 16;

/** Posts events made from one fixture. Throws {@link CommandFailed} when there is no such fixture or target. */
export async function triggerEvents(command: Command, name: string, options: TriggerOptions, io: Io): Promise<Triggered> {
  const found = chosenFixture(name, options);
  // The source is not known yet: a fixture without an envelope that is named so is the request of an automation.
  const target = findTarget(command, options, found.event === null && isRequest(name) ? "automation-request" : found.format, io);
  const fixture = preparedFixture(found, target, options);
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
    isRequest: target.kind === "automation-request",
    source: target.source,
    ...(wamid === undefined ? {} : { wamid }),
  });
  const isOrdered = wamid !== undefined || keepIds;
  const more = {
    concurrency: options.concurrency ?? (isOrdered && !shuffle ? 1 : usualConcurrency),
    // A kept id may be in the store already, and repeats when there are several events.
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
    throw new CommandFailed(
      unknownName(
        "scenario",
        name,
        triggerScenarios.map((each) => each.name),
      ),
    );
  }
  if (scenario.registersLate === true && options.url !== undefined) {
    command.error(`error: ${name} registers messages, so it needs the relay of the settings and not --url`);
  }
  const target = findTarget(command, options, "standard", io);
  const seed = options.seed ?? randomBytes(6).toString("hex");
  const more = { concurrency: options.concurrency ?? scenario.concurrency, known: false, total: null, showsWamids: true };
  if (scenario.rotatesSecrets === true && target.secrets.length === 1) {
    io.err("note: there is one secret; with two, the old and the new one, both are shown to be taken");
  }
  const { config, envFile, count } = options;
  const posts = scenarioPosts(scenario, { seed, start: Date.now(), ...(count === undefined ? {} : { messages: count }) });
  return run(options, io, target, seed, more, async (posting) => {
    const { secrets } = target;
    if (scenario.rotatesSecrets === true) {
      const parts = splitForSecrets(posts, secrets.length);
      for (const [part, secret] of secrets.toReversed().entries()) await runPosts(parts[part] ?? [], posting, secret);
    } else if (scenario.registersLate === true) {
      const { first, rest } = splitAtRegistration(posts);
      await runPosts(first, posting, secrets[0]);
      if (posting.notes.outcome().unexpected > 0 || posting.signal.aborted) return;
      await withRelay(command, { config, envFile, tokenEnv: "RELAY_TOKEN" }, io, "track", (client) => register(client, posting, first));
      await runPosts(rest, posting, secrets[0]);
    } else await runPosts(posts, posting, secrets[0]);
  });
}

async function run(
  { json = false }: TriggerOptions,
  io: Io,
  target: Target,
  seed: string,
  { known, total, showsWamids, concurrency }: { known: boolean; total: number | null; showsWamids: boolean; concurrency: number },
  post: (posting: Posting) => Promise<void>,
) {
  const startedAt = performance.now();
  const judge = createJudge(target.isRelay ? "relay" : "any", { known });
  const notes = createOutcomeNotes();
  const show = createTriggerShow({ io, isJson: json, now: () => performance.now(), total, showsWamids });
  using stop = interruptible();
  const onResult = (sent: Post, result: PostResult): void => {
    const fault = judge.note(sent, result);
    notes.note(sent, result, fault);
    show.post(sent, result, fault);
  };
  await post({ target, concurrency, notes, onResult, signal: stop.signal });
  show.leave();
  for (const fault of judge.ended()) notes.fault(fault);
  return { url: target.url, seed, tookMs: Math.round(performance.now() - startedAt), stopped: stop.signal.aborted, ...notes.outcome() };
}

function chosenFixture(name: string, { fixtures }: TriggerOptions): Fixture {
  const folder = fixtureFolder(fixtures);
  const found = refusable(() => findFixture(name, folder));
  if (found === null) throw new CommandFailed(unknownName("event", name, [...fixtureNames(folder).keys()]));
  return found;
}

/** The fixture with what the options and the source change in it. */
function preparedFixture(
  found: Fixture,
  target: Target,
  { truncated = false, set = [], phoneNumberId = target.phoneNumberId }: TriggerOptions,
): Fixture {
  return refusable(() => {
    const numbered = phoneNumberId === undefined ? found : withPhoneNumberId(found, phoneNumberId);
    const base = truncated ? truncatedFixture(numbered) : numbered;
    return describeFixture(
      found.name,
      set.reduce((text, { path, given }) => setPath(text, path, valueText(given)), base.text),
    );
  });
}

function refusable<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof PathRefused) throw new CommandFailed(`--set: ${error.message}`);
    if (error instanceof FixtureRefused) throw new CommandFailed(error.message);
    throw error;
  }
}

const isRequest = (name: string): boolean => name.startsWith("automation-request");

interface Posting {
  readonly target: Target;
  readonly concurrency: number;
  readonly notes: OutcomeNotes;
  readonly onResult: (post: Post, result: PostResult) => void;
  readonly signal: AbortSignal;
}

/** No retries: the output shows each answer as it is. */
const once = { tries: 1, firstMs: 0, longestMs: 0 };

/** Posts them all, signed with `secret`. Ends early when the connection is refused. */
async function runPosts(posts: Iterable<Post>, { target, concurrency, onResult, signal }: Posting, secret: string): Promise<void> {
  const sender = createSender({
    url: target.url,
    signature: target.signature,
    secret,
    clock: systemClock,
    concurrency,
    retry: once,
    keepAcknowledgements: false,
    ...(target.tls === undefined ? {} : { tls: ownPortOptions(target.tls) }),
    ...(target.rate === undefined ? {} : { rate: target.rate }),
  });
  const nobody = new AbortController();
  try {
    await sender.run(posts, {
      signal: AbortSignal.any([signal, nobody.signal]),
      onResult(post, result) {
        onResult(post, result);
        if (result.kind === "unanswered" && result.error === "ECONNREFUSED") nobody.abort();
      },
    });
  } finally {
    await sender.close();
  }
}

async function register(client: ControlClient, { target, notes }: Posting, posts: readonly Post[]): Promise<void> {
  let created = 0;
  for (const [at, { subject }] of posts.entries()) {
    const body = { account: target.account, wamid: subject.wamid ?? "", reference: `trigger-${at + 1}` };
    if ((await client.track(body)).result === "created") created += 1;
  }
  if (created !== posts.length) notes.fault(`registration: ${posts.length} new messages expected, ${created} were`);
}

/** The user's own fixtures. Throws {@link CommandFailed} when the folder named is not there. */
function fixtureFolder(given: string | undefined): string {
  if (given !== undefined && !existsSync(given)) throw new CommandFailed(`there is no folder ${given}`);
  return given ?? ownFixtures;
}

/** Fixtures with their event kind and status, the folder (null: built in), and why one cannot be used. */
export function listed(given: string | undefined) {
  const own = fixtureFolder(given);
  return {
    fixtures: [...fixtureNames(own)].map(([name, folder]) => ({ name, ...described(name, own), folder })),
    scenarios: triggerScenarios.map(({ name, description }) => ({ name, description })),
  };
}

function described(name: string, folder: string) {
  try {
    const fixture = findFixture(name, folder);
    return { event: fixture?.event ?? null, status: fixture?.status ?? null, fault: null };
  } catch (error) {
    return { event: null, status: null, fault: (error as Error).message };
  }
}

export function listLines({ fixtures, scenarios }: ReturnType<typeof listed>): string[] {
  const events = fixtures.map(({ name, event, status, folder, fault }) => [
    name,
    fault === null ? (event ?? "no envelope") : `cannot be used: ${fault}`,
    status ?? "",
    folder ?? "",
  ]);
  return [
    ...tableLines(["EVENT", "KIND", "STATUS", "FROM"], events),
    "",
    ...tableLines(
      ["SCENARIO", "WHAT HAPPENS"],
      scenarios.map(({ name, description }) => [name, description]),
    ),
  ];
}
