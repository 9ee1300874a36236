import { growingWait } from "../event/backoff.ts";
import type { BudgetFacts, ClaimedAsk, PassStop, Service, SettledAsk, Tracking } from "./port.ts";

/** Calls under way at once; the limiter spreads them over the minute besides. */
const callsAtOnce = 8;
/** Failures in a row after which the service counts as not reachable. */
const failuresInRow = 5;

export type AskOutcome = "changed" | "unchanged" | "missing" | "failed";

export interface AskingParts {
  readonly service: Service;
  readonly tracking: Tracking;
  readonly times: AskTimes;
  readonly now: () => number;
  readonly asked: (account: string, outcome: AskOutcome) => void;
  /** A fault nobody foresaw. */
  readonly failed: (account: string, error: unknown) => void;
}

/**
 * Asks about claimed messages, and gives what became of each. The first goes alone: a key that is refused costs one
 * call of the 20 bad ones a minute that block the address. Ends early when the service cannot be asked, or patience is over.
 */
export async function askSome(
  account: string,
  claims: readonly ClaimedAsk[],
  patience: AbortSignal,
  { service, tracking, times, now, asked, failed }: AskingParts,
): Promise<{ settled: SettledAsk[]; stopped: PassStop | null }> {
  const settled: SettledAsk[] = [];
  const left = claims.toReversed();
  let stopped: PassStop | null = null;
  let inRow = 0;

  async function askOne(ask: ClaimedAsk): Promise<void> {
    const answer = await service.ask(account, ask.messageId, patience);
    switch (answer.type) {
      case "found": {
        inRow = 0;
        // Registered with the id of another message: what it tells is not about this one.
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

  function end(outcome: AskOutcome, one: SettledAsk): void {
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

/** What a claimed message calls for; a settlement where it calls for nothing now. */
type Judgement = { readonly ask: true } | { readonly ask: false; readonly settled: SettledAsk };

/**
 * The message as it stands now: a webhook may have moved it since it was put down to be asked about, so that it has come
 * to rest, or is asked about more rarely; or hydration has just read it.
 */
export function judgeAsk(ask: ClaimedAsk, now: number, times: AskTimes): Judgement {
  const { message, until, since, state, asks, failures, misses, askedAt, readAt } = ask;
  const age = now - since;
  const byAge = nextAskAge(Math.max(0, (askedAt ?? since) - since, (readAt ?? since) - since), state.status, times);
  if (byAge === null || age > times.giveUpAfter) return { ask: false, settled: { message, until, end: "over" } };
  const dueAge = Math.max(byAge, readAt === null ? 0 : readAt + times.after - since);
  if (dueAge <= age) return { ask: true };
  const rank = rankOf(state.status, asks);
  return { ask: false, settled: { message, until, end: "again", nextAt: since + dueAge, rank, asks, failures, misses, askedAt } };
}

/** After an answer that found the message with this status. */
export function afterAnswer(ask: ClaimedAsk, status: string | null, now: number, times: AskTimes, misses = 0): SettledAsk {
  const { message, until, since, asks } = ask;
  const next = nextAskAge(Math.max(0, now - since), status, times);
  if (next === null) return { message, until, end: "over" };
  const rank = rankOf(status, asks + 1);
  return { message, until, end: "again", nextAt: since + next, rank, asks: asks + 1, failures: 0, misses, askedAt: now };
}

/** One 404 may be a passing fault of the service. */
const missesToBelieve = 2;

/** After a 404: missing once the service has said so at two ages of the message, each time while it found others. */
export function afterMissing(ask: ClaimedAsk, isCredible: boolean, now: number, times: AskTimes): SettledAsk {
  const misses = ask.misses + (isCredible ? 1 : 0);
  if (misses >= missesToBelieve) return { message: ask.message, until: ask.until, end: "missing", at: now };
  return afterAnswer(ask, ask.state.status, now, times, misses);
}

/** After a call that failed: it counts as no ask, and comes again after a growing wait. */
function afterFailure({ message, until, state, asks, failures, misses, askedAt }: ClaimedAsk, now: number): SettledAsk {
  const nextAt = now + waitAfterFailure(failures + 1);
  // Not 0, which is for those that were never due: a first ask that failed would else wait once more.
  const rank = Math.max(1, rankOf(state.status, asks));
  return { message, until, end: "again", nextAt, rank, asks, failures: failures + 1, misses, askedAt };
}

/** Claimed and not asked: as if nothing had been. */
export function released({ message, until, dueAt, rank, asks, failures, misses, askedAt }: ClaimedAsk): SettledAsk {
  return { message, until, end: "again", nextAt: dueAt, rank, asks, failures, misses, askedAt };
}

/** Ages and waits in milliseconds. */
export interface AskTimes {
  /** Age at which a message is asked about for the first time. */
  readonly after: number;
  /** Age from which nothing is asked any more. */
  readonly giveUpAfter: number;
  /** The last status worth asking for. */
  readonly until: "read" | "delivered";
}

/**
 * Ages at which is asked, in multiples of `after`; then on and on, by the last wait. With `after: 60s` an open message
 * is asked about at 1, 2, 3, 5, 10, 20, 40 min, 1 h 20, 2 h 40, 5 h 20, and every 12 hours; one that is `delivered` (may
 * still be read) or `failed` (may still reach another device) after 1, 6 and 24 hours, and every day.
 */
const openAges = { steps: [1, 2, 3, 5, 10, 20, 40, 80, 160, 320, 1040], lastWait: 720 } as const;
const settledAges = { steps: [60, 360, 1440, 2880], lastWait: 1440 } as const;

/** Statuses that nothing more is asked about. */
export function restingStatuses(until: AskTimes["until"]): readonly string[] {
  return until === "delivered" ? ["read", "received", "delivered"] : ["read", "received"];
}

/** The age of the next ask of a message last asked about at `age` (0: never); null: there is none. Always greater than `age`. */
export function nextAskAge(age: number, status: string | null, { after, giveUpAfter, until }: AskTimes): number | null {
  if (status !== null && restingStatuses(until).includes(status)) return null;
  const { steps, lastWait } = isSettled(status) ? settledAges : openAges;
  const last = (steps.at(-1) as number) * after;
  const wait = lastWait * after;
  const step = steps.find((multiple) => multiple * after > age);
  const next = step === undefined ? last + wait * (Math.floor((age - last) / wait) + 1) : step * after;
  return next <= giveUpAfter ? next : null;
}

/** Statuses that are asked about more rarely, and the age at which for the first time. */
export const settledStatuses: readonly string[] = ["delivered", "failed"];
export const firstSettledAge = (after: number): number => settledAges.steps[0] * after;

function isSettled(status: string | null): boolean {
  return status !== null && settledStatuses.includes(status);
}

/** Who goes first when not all can be asked: the open before the settled, and those asked least often first. 0 to 31. */
export function rankOf(status: string | null, asks: number): number {
  return Math.min(asks, 15) + (isSettled(status) ? 16 : 0);
}

/** The wait after so many failures in a row, in milliseconds. */
export function waitAfterFailure(failures: number): number {
  return growingWait(failures, 60_000, 3_600_000);
}

interface Budget {
  /** Calls of the month that are left for all purposes; null: unlimited. */
  readonly left: number | null;
  /** How many asks may be made now. */
  readonly mayAsk: number;
  /** Of what is left of the month, what sends do not need. */
  readonly spare: number;
}

export const dayMs = 86_400_000;
/** Of what is left, the part that is kept for sends although none were made yet. */
const keptForSends = 0.1;
/** The part of a day's asks that may be made as the day begins; the others follow evenly. */
const openAtDawn = 0.25;

/**
 * What reconciliation may ask now, so that the quota lasts until its renewal: of what was left when the day began, first
 * what sends will need (as many a day as until now), then an even part for each day. A day that brings more leaves the
 * others their part.
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

/** Shortest time that a rate is taken from: the first minutes of a day tell little. */
const leastElapsedMs = 3_600_000;

/**
 * When the quota would be used up if every ask that is due were made, unix ms; null: it lasts. `postponed`: asks that the
 * budget did not allow.
 */
export function lastsUntil({ month, day, now, today }: BudgetFacts, { left }: Pick<Budget, "left">, postponed: number): number | null {
  if (left === null) return null;
  const perMs = (today.polls + today.others + postponed) / Math.max(leastElapsedMs, now - day);
  const at = perMs === 0 ? Number.POSITIVE_INFINITY : now + left / perMs;
  return at < month.until ? Math.round(at) : null;
}
