import type { Clock } from "../model/clock.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type {
  ClaimedPoll,
  Hold,
  LastPass,
  PassCounts,
  PollAnswer,
  PollClaim,
  PollCounts,
  PollQuery,
  SettledPoll,
} from "../model/poll.ts";
import {
  type BudgetFacts,
  budgetOf,
  checkClaim,
  type FaultStop,
  firstSettledAge,
  isFaultStop,
  lastsUntil,
  type PassStop,
  type PollOutcome,
  pollClaimed,
  released,
  restingStatuses,
  settledStatuses,
  waitAfterFailure,
} from "./polls.ts";
import type { ReconcileSettings } from "./settings.ts";

interface PassesParts {
  readonly settings: () => ReconcileSettings;
  readonly store: {
    claimPolls(claim: PollClaim): Promise<readonly ClaimedPoll[]>;
    settlePolls(settled: readonly SettledPoll[]): Promise<void>;
    countPolls(query: PollQuery): MaybePromise<PollCounts>;
  };
  readonly clock: Clock;
  readonly facts: (account: string) => Promise<BudgetFacts>;
  readonly hold: (account: string) => Hold | null;
  readonly poll: (account: string, messageId: string, signal: AbortSignal) => Promise<PollAnswer>;
  /** Submits a status like a received event if it changes the message; true when it did. */
  readonly submit: (
    account: string,
    claim: ClaimedPoll,
    found: Extract<PollAnswer, { type: "found" }>,
  ) => Promise<boolean>;
  readonly polled: (account: string, outcome: PollOutcome) => void;
  readonly failed: (account: string, error: unknown) => void;
}

export interface AccountSummary extends PassCounts {
  readonly stopped: PassStop | null;
  /** More is due that can be polled at once. */
  readonly more: boolean;
}

/** Messages claimed at once. After a crash, so many are polled again when the lease expires. */
const chunk = 100;
/** Longer than any chunk takes: its calls end after half of it. */
const leaseMs = 600_000;

/**
 * Polls the service for messages without a recent status. Concurrent passes never poll the same
 * message.
 */
export function createPasses(parts: PassesParts) {
  const { settings, store, clock } = parts;
  /** Polls that passes in flight may still make, because a budget does not count them yet. */
  const reserved = new Map<string, number>();
  /** Of accounts whose last pass met one. */
  const faults = new Map<string, { readonly stop: FaultStop; readonly passes: number }>();

  const roomFor = (account: string, facts: BudgetFacts): number =>
    Math.max(0, budgetOf(facts).mayPoll - (reserved.get(account) ?? 0));
  const reserve = (account: string, polls: number): void =>
    void reserved.set(account, (reserved.get(account) ?? 0) + polls);

  function countsOf(account: string, dueBy: number) {
    const { after, giveUpAfter, until } = settings();
    const rare = { statuses: settledStatuses(), sentBy: dueBy - firstSettledAge(after) };
    return store.countPolls({
      account,
      dueBy,
      after,
      from: clock.now() - giveUpAfter,
      resting: restingStatuses(until),
      rare,
    });
  }

  /** After the wait, the limiter lets one call probe a refused key or a used-up quota. */
  function holdNow(account: string): PassStop | null {
    const hold = parts.hold(account);
    return hold !== null && hold.until !== null && hold.until <= clock.now() ? null : hold;
  }

  async function pollChunk(
    account: string,
    dueBy: number,
    signal: AbortSignal,
    sums: Record<PollOutcome, number>,
  ) {
    const now = clock.now();
    const times = settings();
    const claims = await store.claimPolls({
      account,
      now,
      dueBy,
      after: times.after,
      limit: chunk,
      leaseMs,
    });
    const settled: SettledPoll[] = [];
    const due = claims.filter((claim) => {
      const notDue = checkClaim(claim, now, times);
      if (notDue !== null) settled.push(notDue);
      return notDue === null;
    });
    const facts = await parts.facts(account);
    // No await between this and the reservation, so no other pass takes the same room.
    const polled = due.slice(0, roomFor(account, facts));
    settled.push(...due.slice(polled.length).map(released));
    const tooLong = new AbortController();
    const cancelLease = clock.after(leaseMs / 2, () => tooLong.abort());
    const ending = AbortSignal.any([signal, tooLong.signal]);
    reserve(account, polled.length);
    try {
      const done = await pollClaimed(polled, ending, {
        times,
        now: clock.now,
        poll: ({ messageId }) => parts.poll(account, messageId, ending),
        submit: (claim, found) => parts.submit(account, claim, found),
        ended(outcome, error) {
          sums[outcome] += 1;
          parts.polled(account, outcome);
          if (error !== undefined) parts.failed(account, error);
        },
      });
      settled.push(...done.settled);
      return { stopped: done.stopped, isLast: claims.length === 0 || due.length > polled.length };
    } finally {
      cancelLease();
      reserve(account, -polled.length);
      await store.settlePolls(settled);
    }
  }

  return {
    /** Before it, scheduled passes skip the account. */
    faultyUntil: (account: string): number => faults.get(account)?.stop.until ?? 0,
    forgetFaults: (): void => faults.clear(),
    /** `signal` ends the pass; requests in flight continue. */
    async pass(account: string, dueBy: number, signal: AbortSignal): Promise<AccountSummary> {
      const sums = { changed: 0, unchanged: 0, missing: 0, failed: 0 };
      let stopped = holdNow(account);
      while (
        stopped === null &&
        !signal.aborted &&
        roomFor(account, await parts.facts(account)) > 0
      ) {
        const done = await pollChunk(account, dueBy, signal, sums);
        stopped = done.stopped;
        if (done.isLast) break;
      }
      if (isFaultStop(stopped)) {
        const passes = (faults.get(account)?.passes ?? 0) + 1;
        stopped = { ...stopped, until: clock.now() + waitAfterFailure(passes) };
        faults.set(account, { stop: stopped, passes });
      } else if (sums.changed + sums.unchanged > 0) faults.delete(account);
      const { due, unpollable } = await countsOf(account, dueBy);
      const facts = await parts.facts(account);
      const isBudget = due > 0 && stopped === null && roomFor(account, facts) === 0;
      const postponed = isBudget ? due : 0;
      return {
        account,
        polled: sums.changed + sums.unchanged + sums.missing + sums.failed,
        ...sums,
        postponed,
        unpollable,
        stopped,
        lastsUntil: lastsUntil(facts, postponed),
        more: due > 0 && stopped === null && !isBudget,
      };
    },
    async plan(account: string, dueBy: number) {
      const counts = await countsOf(account, dueBy);
      const facts = await parts.facts(account);
      const hold = holdNow(account);
      const room = roomFor(account, facts);
      const postponed = Math.max(0, counts.due - room);
      return {
        account,
        ...counts,
        /** Calls that a pass would make at most. */
        wouldPoll: hold === null ? Math.min(counts.due, room) : 0,
        postponed,
        stopped: hold ?? faults.get(account)?.stop ?? null,
        lastsUntil: lastsUntil(facts, postponed),
      };
    },
  };
}

/**
 * Polls of a service that does not answer wait for an hour at most. After two hours without one,
 * nothing is due any more.
 */
const forgottenMs = 2 * 3_600_000;

/** A pass without a poll shows nothing; faults that no wait mends raise an alarm instead. */
export function unreachable(
  { polled, failed, stopped }: Omit<AccountSummary, "more">,
  before: LastPass | null,
  at: number,
): Pick<LastPass, "unreachableSince" | "unansweredAt"> {
  const { unreachableSince: since = null, unansweredAt = null } = before ?? {};
  const isKnown =
    polled === 0 && since !== null && unansweredAt !== null && at - unansweredAt < forgottenMs;
  if (isKnown) return { unreachableSince: since, unansweredAt };
  const isUnanswered =
    polled > 0 && failed === polled && (stopped === null || stopped.reason === "unreachable");
  return isUnanswered
    ? { unreachableSince: since ?? at, unansweredAt: at }
    : { unreachableSince: null, unansweredAt: null };
}
