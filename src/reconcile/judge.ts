import { type AskTimes, nextAskAge, rankOf, waitAfterFailure } from "./next-ask.ts";
import type { ClaimedAsk, SettledAsk } from "./port.ts";

/** What a claimed message calls for; a settlement where it calls for nothing now. */
export type Judgement = { readonly ask: true } | { readonly ask: false; readonly settled: SettledAsk };

/**
 * The message as it stands now: a webhook may have moved it since it was put down to be asked about, so that it has come
 * to rest, or is asked about more rarely; or hydration has just read it.
 */
export function judgeAsk(ask: ClaimedAsk, now: number, times: AskTimes): Judgement {
  const { message, until, since, state, asks, failures, askedAt, readAt } = ask;
  const age = now - since;
  const byAge = nextAskAge(Math.max(0, (askedAt ?? since) - since, (readAt ?? since) - since), state.status, times);
  if (byAge === null || age > times.giveUpAfter) return { ask: false, settled: { message, until, end: "over" } };
  const dueAge = Math.max(byAge, readAt === null ? 0 : readAt + times.after - since);
  if (dueAge <= age) return { ask: true };
  const rank = rankOf(state.status, asks);
  return { ask: false, settled: { message, until, end: "again", nextAt: since + dueAge, rank, asks, failures, askedAt } };
}

/** After an answer that found the message with this status. */
export function afterAnswer({ message, until, since, asks }: ClaimedAsk, status: string, now: number, times: AskTimes): SettledAsk {
  const next = nextAskAge(Math.max(0, now - since), status, times);
  if (next === null) return { message, until, end: "over" };
  return { message, until, end: "again", nextAt: since + next, rank: rankOf(status, asks + 1), asks: asks + 1, failures: 0, askedAt: now };
}

/** After a call that failed: it counts as no ask, and comes again after a growing wait. */
export function afterFailure({ message, until, state, asks, failures, askedAt }: ClaimedAsk, now: number): SettledAsk {
  const nextAt = now + waitAfterFailure(failures + 1);
  // Not 0, which is for those that were never due: a first ask that failed would else wait once more.
  const rank = Math.max(1, rankOf(state.status, asks));
  return { message, until, end: "again", nextAt, rank, asks, failures: failures + 1, askedAt };
}

/** Claimed and not asked: as if nothing had been. */
export function released({ message, until, dueAt, rank, asks, failures, askedAt }: ClaimedAsk): SettledAsk {
  return { message, until, end: "again", nextAt: dueAt, rank, asks, failures, askedAt };
}
