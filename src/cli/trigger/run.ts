import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import type { Command } from "commander";
import { unknownName } from "../../model/nearest.ts";
import { ownPortOptions } from "../../net/tls.ts";
import {
  describeFixture,
  type Fixture,
  findFixture,
  fixtureNames,
  truncatedFixture,
  withPhoneNumberId,
} from "../../sandbox/fixtures/fixture.ts";
import { fixturePosts } from "../../sandbox/fixtures/fixture-posts.ts";
import { FixtureRefused, setPath, valueText } from "../../sandbox/fixtures/json-text.ts";
import { createRandom } from "../../sandbox/ids.ts";
import { createJudge } from "../../sandbox/traffic/answers.ts";
import { scenarioPosts, triggerScenarios } from "../../sandbox/traffic/scenario.ts";
import { createSender } from "../../sandbox/traffic/sender.ts";
import { CommandFailed, type Io, stopSignal } from "../io.ts";
import { ownFixtures } from "../options.ts";
import { tableLines } from "../output.ts";
import type { TriggerOptions } from "./options.ts";
import { createReport } from "./output.ts";
import { findTarget, type Target } from "./target.ts";

const usualConcurrency = 16;

/**
 * Posts events made from one fixture, or a whole scenario. Ends early when the connection is
 * refused. Throws {@link CommandFailed} when there is no such fixture, scenario or target.
 */
export async function runTrigger(
  command: Command,
  what: { readonly fixture: string } | { readonly scenario: string },
  options: TriggerOptions,
  io: Io,
) {
  const order =
    "fixture" in what
      ? fixtureOrder(command, what.fixture, options, io)
      : scenarioOrder(command, what.scenario, options, io);
  const { target, posts, seed, concurrency, isKnown, total, showsWamids } = order;
  const { url, signature, secret, tls, rate, isRelay } = target;
  const startedAt = performance.now();
  const judge = createJudge(isRelay ? "relay" : "any", { known: isKnown });
  const report = createReport({
    io,
    isJson: options.json === true,
    now: () => performance.now(),
    total,
    showsWamids,
  });
  const stopped = stopSignal();
  const nobody = new AbortController();
  const sender = createSender({
    url,
    signature,
    secret,
    concurrency,
    ...(tls && { tls: ownPortOptions(tls) }),
    ...(rate && { rate }),
  });
  try {
    await sender.run(posts, {
      signal: AbortSignal.any([stopped, nobody.signal]),
      onResult(sent, result) {
        report.post(sent, result, judge.note(sent, result));
        if (result.kind === "unanswered" && result.error === "ECONNREFUSED") nobody.abort();
      },
    });
  } finally {
    await sender.close();
  }
  report.leave();
  for (const fault of judge.ended()) report.fault(fault);
  return {
    url,
    seed,
    tookMs: Math.round(performance.now() - startedAt),
    stopped: stopped.aborted,
    ...report.outcome(),
  };
}

function fixtureOrder(command: Command, name: string, options: TriggerOptions, io: Io) {
  const found = chosenFixture(name, options);
  // The source is not known yet: a fixture without an envelope that is named so is the request of
  // an automation.
  const isRequest = found.event === null && name.startsWith("automation-request");
  const target = findTarget(command, options, isRequest ? "automation-request" : found.format, io);
  const {
    count = 1,
    wamid,
    keepIds = false,
    shuffle = false,
    duplicate = 0,
    set = [],
    seed = newSeed(),
  } = options;
  const posts = fixturePosts({
    fixture: preparedFixture(found, target, options),
    random: createRandom(seed),
    now: Date.now,
    count,
    duplicate,
    shuffle,
    keepIds,
    fixed: new Set(set.map(({ path }) => path)),
    isRequest: target.kind === "automation-request",
    source: target.source,
    ...(wamid === undefined ? {} : { wamid }),
  });
  const isOrdered = (wamid !== undefined || keepIds) && !shuffle;
  return {
    target,
    posts,
    seed,
    concurrency: options.concurrency ?? (isOrdered ? 1 : usualConcurrency),
    // An id may be in the store already, and may repeat.
    isKnown: keepIds || set.some(({ path }) => path === "id"),
    // How many copies there will be is drawn.
    total: duplicate > 0 && duplicate < 1 ? null : count * (1 + duplicate),
    showsWamids: !keepIds,
  };
}

function scenarioOrder(command: Command, name: string, options: TriggerOptions, io: Io) {
  const scenario = triggerScenarios.find((each) => each.name === name);
  const names = triggerScenarios.map((each) => each.name);
  if (scenario === undefined) throw new CommandFailed(unknownName("scenario", name, names));
  const {
    count: messages = scenario.messages,
    seed = newSeed(),
    concurrency = scenario.concurrency,
  } = options;
  const target = findTarget(command, options, "standard", io);
  const posts = scenarioPosts({ ...scenario, messages }, { seed, start: Date.now() });
  return { target, posts, seed, concurrency, isKnown: false, total: null, showsWamids: true };
}

const newSeed = () => randomBytes(6).toString("hex");

function chosenFixture(name: string, { fixtures }: TriggerOptions): Fixture {
  const folder = fixtureFolder(fixtures);
  const found = refusable(() => findFixture(name, folder));
  if (found === null)
    throw new CommandFailed(unknownName("event", name, [...fixtureNames(folder).keys()]));
  return found;
}

function preparedFixture(
  found: Fixture,
  target: Target,
  { truncated = false, set = [], phoneNumberId = target.phoneNumberId }: TriggerOptions,
): Fixture {
  return refusable(() => {
    if (found.format === "meta" && set.some(({ path }) => /^data\b/.test(path)))
      throw new FixtureRefused(
        "--set: a request of Meta's has no data; a path in it is entry.0.changes.0.value.statuses.0.status",
      );
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
    if (error instanceof FixtureRefused) throw new CommandFailed(error.message);
    throw error;
  }
}

/** The user's own fixtures. Throws {@link CommandFailed} when the folder named is not there. */
function fixtureFolder(given: string | undefined): string {
  if (given !== undefined && !existsSync(given))
    throw new CommandFailed(`there is no folder ${given}`);
  return given ?? ownFixtures;
}

/**
 * Fixtures with their event kind and status, the folder (null: built in), and why one cannot be
 * used.
 */
export function listed(given: string | undefined) {
  const own = fixtureFolder(given);
  return {
    fixtures: [...fixtureNames(own)].map(([name, folder]) => ({
      name,
      ...described(name, own),
      folder,
    })),
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
  return [
    ...tableLines(fixtures, {
      EVENT: ({ name }) => name,
      KIND: ({ event, fault }) =>
        fault === null ? (event ?? "no envelope") : `cannot be used: ${fault}`,
      STATUS: ({ status }) => status,
      FROM: ({ folder }) => folder,
    }),
    "",
    ...tableLines(scenarios, {
      SCENARIO: ({ name }) => name,
      "WHAT HAPPENS": ({ description }) => description,
    }),
  ];
}
