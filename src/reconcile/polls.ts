import { growingWait } from "../model/clock.ts";
import type { ClaimedPoll, Hold, PollAnswer, PollFault, SettledPoll } from "../model/poll.ts";
import { messageStatuses, reaches, stageOf, statusesOf } from "../model/statuses.ts";
import type { ReconcileSettings } from "./settings.ts";

/** Why a pass ended before it polled all due messages. `until` in unix ms, null when unknown. */
export type PassStop = Hold | { readonly reason: "unreachable"; readonly until: null } | FaultStop;

/** `until`: when the schedule tries again. */
export interface FaultStop extends PollFault {
  readonly until: number | null;
}

export function isFaultStop(stopped: PassStop | null): stopped is FaultStop {
  return stopped !== null && "detail" in stopped;
}

export interface Calls {
  readonly polls: number;
  readonly others: number;
}

export interface BudgetFacts {
  /** The relay's share of the month's calls; null: unlimited. */
  readonly quota: number | null;
  /** The month of the quota, in unix ms. */
  readonly month: { readonly from: number; readonly until: number };
  /** Unix ms at which the day began. */
  readonly day: number;
  readonly now: number;
  /** Of the month, without this day. */
  readonly before: Calls;
  readonly today: Calls;
}

const callsAtOnce = 8;
/** Failures in a row after which the service counts as unreachable. */
const failuresInRow = 5;

export type PollOutcome = "changed" | "unchanged" | "missing" | "failed";

interface PollParts {
  readonly times: PollTimes;
  readonly now: () => number;
  /** A request in flight continues after the signal. */
  poll(claim: ClaimedPoll): Promise<PollAnswer>;
  /** Submits a status like a received event if it changes the message; true when it did. */
  submit(claim: ClaimedPoll, found: Extract<PollAnswer, { type: "found" }>): Promise<boolean>;
  /** `error`: an unexpected one. */
  ended(outcome: PollOutcome, error?: unknown): void;
}

/**
 * Polls claimed messages and returns the result of each. The first poll goes alone, so that a
 * refused key costs one of the 20 bad calls per minute that block the address. Ends early when the
 * service cannot be called or `signal` is aborted.
 */
export async function pollClaimed(
  claims: readonly ClaimedPoll[],
  signal: AbortSignal,
  { times, now, poll, submit, ended }: PollParts,
): Promise<{ settled: SettledPoll[]; stopped: PassStop | null }> {
  const settled: SettledPoll[] = [];
  const left = claims.toReversed();
  let stopped: PassStop | null = null;
  let failures = 0;

  function end(outcome: PollOutcome, one: SettledPoll, error?: unknown): void {
    settled.push(one);
    ended(outcome, error);
  }

  function fail(claim: ClaimedPoll, error?: unknown): void {
    failures += 1;
    if (failures >= failuresInRow) stopped ??= { reason: "unreachable", until: null };
    end("failed", afterFailure(claim, now()), error);
  }

  async function pollOne(claim: ClaimedPoll): Promise<void> {
    const answer = await poll(claim);
    switch (answer.type) {
      case "found": {
        failures = 0;
        // Registered with the id of another message: the answer is not about this one.
        if (answer.wamid !== claim.wamid) return end("missing", missingAt(claim, now()));
        const isNew = await submit(claim, answer);
        return end(
          isNew ? "changed" : "unchanged",
          afterAnswer(claim, answer.status, now(), times),
        );
      }
      case "missing":
        failures = 0;
        return end("missing", afterMissing(claim, answer.isCredible, now(), times));
      case "faulty":
        stopped ??= { ...answer.fault, until: null };
        return end("failed", afterFailure(claim, now()));
      case "held":
        stopped ??= { reason: answer.reason, until: answer.until };
        settled.push(released(claim));
        return;
      case "not-polled":
        settled.push(released(claim));
        return;
      default:
        return fail(claim);
    }
  }

  async function work(most: number): Promise<void> {
    for (let made = 0; made < most && stopped === null && !signal.aborted; made++) {
      const claim = left.pop();
      if (claim === undefined) return;
      await pollOne(claim).catch((error: unknown) => fail(claim, error));
    }
  }

  await work(1);
  await Promise.all(Array.from({ length: callsAtOnce }, () => work(Number.POSITIVE_INFINITY)));
  settled.push(...left.map(released));
  return { settled, stopped };
}

/**
 * How to settle a claimed message that is not polled now; null: poll it. Checks the message's
 * present state. Since the poll was scheduled, a webhook may have moved it to a final or rarely
 * polled status, or hydration may have read it.
 */
export function checkClaim(claim: ClaimedPoll, now: number, times: PollTimes): SettledPoll | null {
  const { message, until, since, state, polls, polledAt, readAt } = claim;
  const age = now - since;
  const byAge = nextPollAge(
    Math.max(0, (polledAt ?? since) - since, (readAt ?? since) - since),
    state.status,
    times,
  );
  if (byAge === null || age > times.giveUpAfter) return { message, until, end: "over" };
  const dueAge = Math.max(byAge, readAt === null ? 0 : readAt + times.after - since);
  return dueAge <= age ? null : again(claim, since + dueAge, { rank: rankOf(state.status, polls) });
}

export function afterAnswer(
  claim: ClaimedPoll,
  status: string | null,
  now: number,
  times: PollTimes,
  misses = 0,
): SettledPoll {
  const { message, until, since } = claim;
  const next = nextPollAge(Math.max(0, now - since), status, times);
  if (next === null) return { message, until, end: "over" };
  const polls = claim.polls + 1;
  return again(claim, since + next, {
    rank: rankOf(status, polls),
    polls,
    failures: 0,
    misses,
    polledAt: now,
  });
}

/** A single 404 may be a temporary fault of the service. */
const missesToBelieve = 2;

/**
 * After a 404. The message counts as missing after two such polls, each while the service found
 * others.
 */
export function afterMissing(
  claim: ClaimedPoll,
  isCredible: boolean,
  now: number,
  times: PollTimes,
): SettledPoll {
  const misses = claim.misses + (isCredible ? 1 : 0);
  return misses >= missesToBelieve
    ? missingAt(claim, now)
    : afterAnswer(claim, claim.state.status, now, times, misses);
}

function missingAt({ message, until }: ClaimedPoll, at: number): SettledPoll {
  return { message, until, end: "missing", at };
}

/** After a failed call: does not count as a poll, and is repeated after a growing wait. */
function afterFailure(claim: ClaimedPoll, now: number): SettledPoll {
  const failures = claim.failures + 1;
  // Rank 0 is for messages that were never due: with it, a failed first poll would wait once more.
  const rank = Math.max(1, rankOf(claim.state.status, claim.polls));
  return again(claim, now + waitAfterFailure(failures), { rank, failures });
}

export function released(claim: ClaimedPoll): SettledPoll {
  return again(claim, claim.dueAt, {});
}

type Counts = Pick<ClaimedPoll, "rank" | "polls" | "failures" | "misses" | "polledAt">;

function again(
  { message, until, rank, polls, failures, misses, polledAt }: ClaimedPoll,
  nextAt: number,
  changes: Partial<Counts>,
): SettledPoll {
  return {
    message,
    until,
    end: "again",
    nextAt,
    rank,
    polls,
    failures,
    misses,
    polledAt,
    ...changes,
  };
}

export type PollTimes = Pick<ReconcileSettings, "after" | "giveUpAfter" | "until">;

/**
 * Ages of polls, in multiples of `after`, and then the wait between further polls. With `after:
 * 60s`, an open message is polled at 1, 2, 3, 5, 10, 20, 40 min, 1 h 20, 2 h 40, 5 h 20, and every
 * 12 hours. A message that is `delivered` (may still be read) or `failed` (may still reach another
 * device) is polled after 1, 6 and 24 hours, and every day.
 */
const openAges = { steps: [1, 2, 3, 5, 10, 20, 40, 80, 160, 320, 1040], lastWait: 720 } as const;
const settledAges = { steps: [60, 360, 1440, 2880], lastWait: 1440 } as const;

export function restingStatuses(until: PollTimes["until"]): readonly string[] {
  return statusesOf(messageStatuses).filter(
    (status) =>
      stageOf(messageStatuses, status) === "final" || reaches(messageStatuses, status, until),
  );
}

/**
 * The age of the next poll after one at `age` (0: never polled); null: none. Always greater than
 * `age`.
 */
export function nextPollAge(
  age: number,
  status: string | null,
  { after, giveUpAfter, until }: PollTimes,
): number | null {
  if (status !== null && restingStatuses(until).includes(status)) return null;
  const { steps, lastWait } = isSettled(status) ? settledAges : openAges;
  const last = (steps.at(-1) as number) * after;
  const wait = lastWait * after;
  const step = steps.find((multiple) => multiple * after > age);
  const next =
    step === undefined ? last + wait * (Math.floor((age - last) / wait) + 1) : step * after;
  return next <= giveUpAfter ? next : null;
}

/** Statuses that are polled more rarely, and the age of the first such poll. */
export const settledStatuses = (): readonly string[] =>
  statusesOf(messageStatuses).filter((status) => stageOf(messageStatuses, status) === "settled");
export const firstSettledAge = (after: number): number => settledAges.steps[0] * after;

function isSettled(status: string | null): boolean {
  return stageOf(messageStatuses, status) === "settled";
}

/**
 * The order of polls under a budget: open before settled messages, then those polled least often. 0
 * to 31.
 */
export function rankOf(status: string | null, polls: number): number {
  return Math.min(polls, 15) + (isSettled(status) ? 16 : 0);
}

export function waitAfterFailure(failures: number): number {
  return growingWait(failures, 60_000, 3_600_000);
}

interface Budget {
  /** Calls left of the month, for all purposes; null: unlimited. */
  readonly left: number | null;
  /** Polls allowed now. */
  readonly mayPoll: number;
  /** The part of the remaining month that sends do not need. */
  readonly spare: number;
}

export const dayMs = 86_400_000;
/** The part of the remaining calls that is reserved for sends even before any were made. */
const keptForSends = 0.1;
/** The part of a day's polls that is allowed when the day begins; the others follow evenly. */
const openAtDawn = 0.25;

/**
 * Limits polls so that the quota lasts until its renewal. Of the calls left when the day began, it
 * reserves what sends will need (at the rate so far) and divides the rest evenly among the days, so
 * that a busy day leaves the others their part.
 */
export function budgetOf({ quota, month, day, now, before, today }: BudgetFacts): Budget {
  if (quota === null)
    return { left: null, mayPoll: Number.MAX_SAFE_INTEGER, spare: Number.MAX_SAFE_INTEGER };
  const leftAtDawn = quota - before.polls - before.others;
  const left = Math.max(0, leftAtDawn - today.polls - today.others);
  const daysLeft = Math.max(1, (month.until - day) / dayMs);
  const daysGone = (day - month.from) / dayMs;
  const sendsADay = Math.max(daysGone < 1 ? 0 : before.others / daysGone, today.others);
  const forSends = Math.max(sendsADay * daysLeft, leftAtDawn * keptForSends);
  const forPolls = Math.max(0, leftAtDawn - forSends);
  const part = forPolls / daysLeft;
  const open = openAtDawn + (1 - openAtDawn) * Math.min(1, Math.max(0, now - day) / dayMs);
  const upTo = (most: number) => Math.max(0, Math.min(Math.floor(most) - today.polls, left));
  return { left, mayPoll: upTo(part * open), spare: upTo(forPolls) };
}

/** Shortest time for a rate: the first minutes of a day are not representative. */
const leastElapsedMs = 3_600_000;

/**
 * When the quota would be used up if the polls that the budget postponed were made, too, in unix
 * ms; null: it lasts.
 */
export function lastsUntil(facts: BudgetFacts, postponed: number): number | null {
  const { month, day, now, today } = facts;
  const { left } = budgetOf(facts);
  if (left === null || postponed === 0) return null;
  const perMs = (today.polls + today.others + postponed) / Math.max(leastElapsedMs, now - day);
  const at = now + left / perMs;
  return at < month.until ? Math.round(at) : null;
}
