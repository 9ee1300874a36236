import { type AskTimes, nextAskAge, rankOf, waitAfterFailure } from "./next-ask.ts";
import type { ClaimedAsk, SettledAsk } from "./port.ts";

/** What a claimed message calls for; a settlement where it calls for nothing now. */
export type Judgement = { readonly ask: true } | { readonly ask: false; readonly settled: SettledAsk };

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
export function afterFailure({ message, until, state, asks, failures, misses, askedAt }: ClaimedAsk, now: number): SettledAsk {
  const nextAt = now + waitAfterFailure(failures + 1);
  // Not 0, which is for those that were never due: a first ask that failed would else wait once more.
  const rank = Math.max(1, rankOf(state.status, asks));
  return { message, until, end: "again", nextAt, rank, asks, failures: failures + 1, misses, askedAt };
}

/** Claimed and not asked: as if nothing had been. */
export function released({ message, until, dueAt, rank, asks, failures, misses, askedAt }: ClaimedAsk): SettledAsk {
  return { message, until, end: "again", nextAt: dueAt, rank, asks, failures, misses, askedAt };
}
