import { growingWait } from "../model/backoff.ts";
import type { ClaimedPoll, SettledPoll } from "../model/poll.ts";
import type { BudgetFacts, PassStop, Service, Tracking } from "./port.ts";
import type { ReconcileSettings } from "./settings.ts";

/** Calls in flight at once; the limiter also spreads them over the minute. */
const callsAtOnce = 8;
/** Failures in a row after which the service counts as unreachable. */
const failuresInRow = 5;

export type PollOutcome = "changed" | "unchanged" | "missing" | "failed";

export interface AskingParts {
  readonly service: Service;
  readonly tracking: Tracking;
  readonly times: PollTimes;
  readonly now: () => number;
  readonly asked: (account: string, outcome: PollOutcome) => void;
  /** An unexpected error. */
  readonly failed: (account: string, error: unknown) => void;
}

/**
 * Polls claimed messages and returns the result of each. The first poll goes alone, so that a refused key costs one of the
 * 20 bad calls per minute that block the address. Ends early when the service cannot be called or `patience` is aborted.
 */
export async function pollClaimed(
  account: string,
  claims: readonly ClaimedPoll[],
  patience: AbortSignal,
  { service, tracking, times, now, asked, failed }: AskingParts,
): Promise<{ settled: SettledPoll[]; stopped: PassStop | null }> {
  const settled: SettledPoll[] = [];
  const left = claims.toReversed();
  let stopped: PassStop | null = null;
  let inRow = 0;

  async function askOne(ask: ClaimedPoll): Promise<void> {
    const answer = await service.ask(account, ask.messageId, patience);
    switch (answer.type) {
      case "found": {
        inRow = 0;
        // Registered with the id of another message: the answer is not about this one.
        if (answer.wamid !== ask.wamid) return end("missing", { message: ask.message, until: ask.until, end: "missing", at: now() });
        const isNews = tracking.moves(ask.state, answer.status, answer.errorCode) && (await tracking.learn(account, ask, answer));
        return end(isNews ? "changed" : "unchanged", afterAnswer(ask, answer.status, now(), times));
      }
      case "missing":
        inRow = 0;
        return end("missing", afterMissing(ask, answer.isCredible, now(), times));
      case "faulty":
        stopped ??= { ...answer.fault, until: null };
        return end("failed", afterFailure(ask, now()));
      case "failed":
        inRow += 1;
        if (inRow >= failuresInRow) stopped ??= { reason: "unreachable", until: null };
        return end("failed", afterFailure(ask, now()));
      case "held":
        stopped ??= { reason: answer.reason, until: answer.until };
        settled.push(released(ask));
        return;
      case "not-asked":
        settled.push(released(ask));
    }
  }

  function end(outcome: PollOutcome, one: SettledPoll): void {
    settled.push(one);
    asked(account, outcome);
  }

  async function work(most: number): Promise<void> {
    for (let made = 0; made < most && stopped === null && !patience.aborted; made++) {
      const ask = left.pop();
      if (ask === undefined) return;
      try {
        await askOne(ask);
      } catch (error) {
        failed(account, error);
        end("failed", afterFailure(ask, now()));
        inRow += 1;
        if (inRow >= failuresInRow) stopped ??= { reason: "unreachable", until: null };
      }
    }
  }

  await work(1);
  await Promise.all(Array.from({ length: callsAtOnce }, () => work(Number.POSITIVE_INFINITY)));
  settled.push(...left.map(released));
  return { settled, stopped };
}

/** Whether to poll a claimed message now; if not, how to settle the claim. */
type Judgement = { readonly ask: true } | { readonly ask: false; readonly settled: SettledPoll };

/**
 * Checks the message's present state. Since the poll was scheduled, a webhook may have moved it to a final or rarely polled
 * status, or hydration may have read it.
 */
export function checkClaim(ask: ClaimedPoll, now: number, times: PollTimes): Judgement {
  const { message, until, since, state, asks, failures, misses, askedAt, readAt } = ask;
  const age = now - since;
  const byAge = nextPollAge(Math.max(0, (askedAt ?? since) - since, (readAt ?? since) - since), state.status, times);
  if (byAge === null || age > times.giveUpAfter) return { ask: false, settled: { message, until, end: "over" } };
  const dueAge = Math.max(byAge, readAt === null ? 0 : readAt + times.after - since);
  if (dueAge <= age) return { ask: true };
  const rank = rankOf(state.status, asks);
  return { ask: false, settled: { message, until, end: "again", nextAt: since + dueAge, rank, asks, failures, misses, askedAt } };
}

/** After an answer that found the message with this status. */
export function afterAnswer(ask: ClaimedPoll, status: string | null, now: number, times: PollTimes, misses = 0): SettledPoll {
  const { message, until, since, asks } = ask;
  const next = nextPollAge(Math.max(0, now - since), status, times);
  if (next === null) return { message, until, end: "over" };
  const rank = rankOf(status, asks + 1);
  return { message, until, end: "again", nextAt: since + next, rank, asks: asks + 1, failures: 0, misses, askedAt: now };
}

/** A single 404 may be a temporary fault of the service. */
const missesToBelieve = 2;

/** After a 404. The message counts as missing after two such polls, each while the service found others. */
export function afterMissing(ask: ClaimedPoll, isCredible: boolean, now: number, times: PollTimes): SettledPoll {
  const misses = ask.misses + (isCredible ? 1 : 0);
  if (misses >= missesToBelieve) return { message: ask.message, until: ask.until, end: "missing", at: now };
  return afterAnswer(ask, ask.state.status, now, times, misses);
}

/** After a failed call: does not count as a poll, and is repeated after a growing wait. */
function afterFailure({ message, until, state, asks, failures, misses, askedAt }: ClaimedPoll, now: number): SettledPoll {
  const nextAt = now + waitAfterFailure(failures + 1);
  // Rank 0 is for messages that were never due: with it, a failed first poll would wait once more.
  const rank = Math.max(1, rankOf(state.status, asks));
  return { message, until, end: "again", nextAt, rank, asks, failures: failures + 1, misses, askedAt };
}

/** Returns a claim that was not polled, unchanged. */
export function released({ message, until, dueAt, rank, asks, failures, misses, askedAt }: ClaimedPoll): SettledPoll {
  return { message, until, end: "again", nextAt: dueAt, rank, asks, failures, misses, askedAt };
}

export type PollTimes = Pick<ReconcileSettings, "after" | "giveUpAfter" | "until">;

/**
 * Ages of polls, in multiples of `after`, and then the wait between further polls. With `after: 60s`, an open message is
 * polled at 1, 2, 3, 5, 10, 20, 40 min, 1 h 20, 2 h 40, 5 h 20, and every 12 hours. A message that is `delivered` (may
 * still be read) or `failed` (may still reach another device) is polled after 1, 6 and 24 hours, and every day.
 */
const openAges = { steps: [1, 2, 3, 5, 10, 20, 40, 80, 160, 320, 1040], lastWait: 720 } as const;
const settledAges = { steps: [60, 360, 1440, 2880], lastWait: 1440 } as const;

/** Statuses that are not polled. */
export function restingStatuses(until: PollTimes["until"]): readonly string[] {
  return until === "delivered" ? ["read", "received", "delivered"] : ["read", "received"];
}

/** The age of the next poll after one at `age` (0: never polled); null: none. Always greater than `age`. */
export function nextPollAge(age: number, status: string | null, { after, giveUpAfter, until }: PollTimes): number | null {
  if (status !== null && restingStatuses(until).includes(status)) return null;
  const { steps, lastWait } = isSettled(status) ? settledAges : openAges;
  const last = (steps.at(-1) as number) * after;
  const wait = lastWait * after;
  const step = steps.find((multiple) => multiple * after > age);
  const next = step === undefined ? last + wait * (Math.floor((age - last) / wait) + 1) : step * after;
  return next <= giveUpAfter ? next : null;
}

/** Statuses that are polled more rarely, and the age of the first such poll. */
export const settledStatuses: readonly string[] = ["delivered", "failed"];
export const firstSettledAge = (after: number): number => settledAges.steps[0] * after;

function isSettled(status: string | null): boolean {
  return status !== null && settledStatuses.includes(status);
}

/** The order of polls under a budget: open before settled messages, then those polled least often. 0 to 31. */
export function rankOf(status: string | null, asks: number): number {
  return Math.min(asks, 15) + (isSettled(status) ? 16 : 0);
}

/** The wait after so many failures in a row, in milliseconds. */
export function waitAfterFailure(failures: number): number {
  return growingWait(failures, 60_000, 3_600_000);
}

interface Budget {
  /** Calls left of the month, for all purposes; null: unlimited. */
  readonly left: number | null;
  /** Polls allowed now. */
  readonly mayAsk: number;
  /** The part of the remaining month that sends do not need. */
  readonly spare: number;
}

export const dayMs = 86_400_000;
/** The part of the remaining calls that is reserved for sends even before any were made. */
const keptForSends = 0.1;
/** The part of a day's polls that is allowed when the day begins; the others follow evenly. */
const openAtDawn = 0.25;

/**
 * Limits polls so that the quota lasts until its renewal. Of the calls left when the day began, it reserves what sends will
 * need (at the rate so far) and divides the rest evenly among the days, so that a busy day leaves the others their part.
 */
export function budgetOf({ quota, month, day, now, before, today }: BudgetFacts): Budget {
  if (quota === null) return { left: null, mayAsk: Number.MAX_SAFE_INTEGER, spare: Number.MAX_SAFE_INTEGER };
  const leftAtDawn = quota - before.polls - before.others;
  const left = Math.max(0, leftAtDawn - today.polls - today.others);
  const daysLeft = Math.max(1, (month.until - day) / dayMs);
  const daysGone = (day - month.from) / dayMs;
  const sendsADay = Math.max(daysGone < 1 ? 0 : before.others / daysGone, today.others);
  const forSends = Math.max(sendsADay * daysLeft, leftAtDawn * keptForSends);
  const forAsks = Math.max(0, leftAtDawn - forSends);
  const part = forAsks / daysLeft;
  const open = openAtDawn + (1 - openAtDawn) * Math.min(1, Math.max(0, now - day) / dayMs);
  const upTo = (most: number) => Math.max(0, Math.min(Math.floor(most) - today.polls, left));
  return { left, mayAsk: upTo(part * open), spare: upTo(forAsks) };
}

/** Shortest time for a rate: the first minutes of a day are not representative. */
const leastElapsedMs = 3_600_000;

/**
 * When the quota would be used up if all due polls were made, in unix ms; null: it lasts. `postponed`: polls that the budget
 * did not allow.
 */
export function lastsUntil({ month, day, now, today }: BudgetFacts, { left }: Pick<Budget, "left">, postponed: number): number | null {
  if (left === null) return null;
  const perMs = (today.polls + today.others + postponed) / Math.max(leastElapsedMs, now - day);
  const at = perMs === 0 ? Number.POSITIVE_INFINITY : now + left / perMs;
  return at < month.until ? Math.round(at) : null;
}
