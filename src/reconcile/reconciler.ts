import type { Clock } from "../model/clock.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { ClaimedPoll, PassCounts, PollStore, SettledPoll } from "../model/poll.ts";
import { createTimetable } from "../model/schedule.ts";
import {
  type BudgetFacts,
  type BudgetFactsOf,
  budgetOf,
  checkClaim,
  type FaultStop,
  firstSettledAge,
  isFaultStop,
  lastsUntil,
  type PassStop,
  type PollOutcome,
  type PollParts,
  pollClaimed,
  released,
  restingStatuses,
  type Service,
  settledStatuses,
  type Tracking,
  waitAfterFailure,
} from "./polls.ts";
import type { ReconcileSettings } from "./settings.ts";

interface ReconcilerParts {
  readonly settings: () => ReconcileSettings;
  readonly store: PollStore;
  readonly service: Service;
  readonly tracking: Tracking;
  readonly budget: BudgetFactsOf;
  /** Whether this process makes the scheduled passes of an account. */
  readonly isOurs: (account: string) => MaybePromise<boolean>;
  readonly clock: Clock;
  readonly supervise: (task: { readonly name: string; readonly firstMs: number; run(): number }) => {
    wake(): void;
    close(): Promise<void>;
  };
  readonly hooks: ReconcilerHooks;
}

export interface ReconcilerHooks {
  polled(account: string, outcome: PollOutcome): void;
  /** After each pass over an account, even an empty one. */
  passed(summary: AccountSummary): void;
  failed(account: string, error: unknown): void;
}

interface PassOptions {
  readonly dueBy: number;
  /** Ends the pass; requests in flight continue. */
  readonly signal: AbortSignal;
}

export interface AccountSummary extends PassCounts {
  readonly stopped: PassStop | null;
  /** More is due that can be polled at once. */
  readonly more: boolean;
}

interface AccountPlan extends Pick<AccountSummary, "account" | "postponed" | "unpollable" | "missing" | "stopped" | "lastsUntil"> {
  readonly due: number;
  /** Calls that a pass would make at most. */
  readonly wouldPoll: number;
}

/** Messages claimed at once. After a crash, so many are polled again when the lease expires. */
const chunk = 100;
/** Longer than any chunk takes: its calls end after half of it. */
const leaseMs = 600_000;

/** Polls the service for messages without a recent status, on the configured schedule and on request. */
export function createReconciler(parts: ReconcilerParts) {
  const { settings, service, clock, hooks } = parts;
  const closing = new AbortController();
  const inFlight = new Set<Promise<unknown>>();
  const scheduled = new Set<string>();
  const room = createRoom();
  const faults = createFaults(clock);
  const timetable = createTimetable(clock.now);

  async function runPass(account: string, options: PassOptions): Promise<AccountSummary> {
    const sums: Record<PollOutcome, number> = { changed: 0, unchanged: 0, missing: 0, failed: 0 };
    const polling: PollParts = {
      ...parts,
      times: settings(),
      now: clock.now,
      polled(of, outcome) {
        sums[outcome] += 1;
        hooks.polled(of, outcome);
      },
      failed: hooks.failed,
    };
    const signal = AbortSignal.any([options.signal, closing.signal]);
    let stopped: PassStop | null = holdNow(account);
    while (stopped === null && !signal.aborted && room.left(account, await parts.budget(account)) > 0) {
      const done = await pollChunk(account, { ...options, signal }, polling, parts, room);
      stopped = done.stopped;
      if (done.isLast) break;
    }
    if (isFaultStop(stopped)) stopped = faults.note(account, stopped);
    else if (sums.changed + sums.unchanged > 0) faults.end(account);
    const { due, unpollable } = await countsOf(parts, account, options.dueBy);
    const facts = await parts.budget(account);
    const isBudget = due > 0 && stopped === null && room.left(account, facts) === 0;
    const postponed = isBudget ? due : 0;
    const summary: AccountSummary = {
      account,
      polled: sums.changed + sums.unchanged + sums.missing + sums.failed,
      ...sums,
      postponed,
      unpollable,
      stopped,
      lastsUntil: isBudget ? lastsUntil(facts, budgetOf(facts), postponed) : null,
      more: due > 0 && stopped === null && !isBudget,
    };
    hooks.passed(summary);
    return summary;
  }

  /** After the wait, the limiter lets one call probe a refused key or a used-up quota. */
  function holdNow(account: string): PassStop | null {
    const hold = service.hold(account);
    if (hold === null) return null;
    return hold.until !== null && hold.until <= clock.now() ? null : hold;
  }

  async function scheduledPass(account: string): Promise<void> {
    if (clock.now() < faults.until(account)) return;
    if (await parts.isOurs(account)) await runPass(account, { dueBy: clock.now(), signal: closing.signal });
  }

  function startDue(): number {
    const { isDue, waitMs } = timetable(settings().schedule);
    for (const account of isDue ? service.accounts() : []) {
      // The previous scheduled pass is still running.
      if (scheduled.has(account)) continue;
      scheduled.add(account);
      kept(inFlight, scheduledPass(account))
        .catch((error: unknown) => hooks.failed(account, error))
        .finally(() => scheduled.delete(account));
    }
    return waitMs;
  }

  const schedule = parts.supervise({ name: "reconciliation", firstMs: 0, run: startDue });
  return {
    accounts: service.accounts,
    /** Polls what is due. Concurrent passes never poll the same message. */
    pass: (account: string, options: PassOptions): Promise<AccountSummary> => kept(inFlight, runPass(account, options)),
    async plan(account: string, dueBy: number): Promise<AccountPlan> {
      const { due, unpollable, missing } = await countsOf(parts, account, dueBy);
      const facts = await parts.budget(account);
      const budget = budgetOf(facts);
      const hold = holdNow(account);
      const may = room.left(account, facts);
      const postponed = Math.max(0, due - may);
      return {
        account,
        due,
        wouldPoll: hold === null ? Math.min(due, may) : 0,
        postponed,
        unpollable,
        missing,
        stopped: hold ?? faults.of(account),
        lastsUntil: postponed > 0 ? lastsUntil(facts, budget, postponed) : null,
      };
    },
    /** The settings have changed. */
    reload(): void {
      faults.clear();
      schedule.wake();
    },
    /** Ends the passes in flight; resolves when their claims are released. */
    async close(): Promise<void> {
      closing.abort();
      await Promise.allSettled([schedule.close(), ...inFlight]);
    },
  };
}

function kept<T>(inFlight: Set<Promise<unknown>>, running: Promise<T>): Promise<T> {
  inFlight.add(running);
  const forget = () => void inFlight.delete(running);
  running.then(forget, forget);
  return running;
}

function countsOf({ store, clock, settings }: ReconcilerParts, account: string, dueBy: number) {
  const { after, giveUpAfter, until } = settings();
  return store.countPolls({
    account,
    dueBy,
    after,
    from: clock.now() - giveUpAfter,
    resting: restingStatuses(until),
    rare: { statuses: settledStatuses(), sentBy: dueBy - firstSettledAge(after) },
  });
}

async function pollChunk(
  account: string,
  { dueBy, signal }: PassOptions,
  polling: PollParts,
  { store, clock, budget }: Pick<ReconcilerParts, "store" | "clock" | "budget">,
  room: Room,
) {
  const now = clock.now();
  const claims = await store.claimPolls({ account, now, dueBy, after: polling.times.after, limit: chunk, leaseMs });
  const settled: SettledPoll[] = [];
  const due: ClaimedPoll[] = [];
  for (const claim of claims) {
    const notDue = checkClaim(claim, now, polling.times);
    if (notDue === null) due.push(claim);
    else settled.push(notDue);
  }
  const facts = await budget(account);
  // No await between this and the reservation, so no other pass takes the same room.
  const may = room.left(account, facts);
  settled.push(...due.slice(may).map(released));
  const tooLong = new AbortController();
  const cancelLease = clock.after(leaseMs / 2, () => tooLong.abort());
  const reserved = Math.min(due.length, may);
  room.reserve(account, reserved);
  let stopped: PassStop | null = null;
  try {
    const polled = await pollClaimed(account, due.slice(0, may), AbortSignal.any([signal, tooLong.signal]), polling);
    settled.push(...polled.settled);
    stopped = polled.stopped;
  } finally {
    cancelLease();
    room.reserve(account, -reserved);
    await store.settlePolls(settled);
  }
  return { stopped, isLast: claims.length === 0 || due.length > may };
}

type Room = ReturnType<typeof createRoom>;

/** The polls that the budgets leave. Those that passes in flight may still make are reserved, because a budget does not count them yet. */
function createRoom() {
  const reserved = new Map<string, number>();
  const of = (account: string): number => reserved.get(account) ?? 0;
  return {
    left: (account: string, facts: BudgetFacts): number => Math.max(0, budgetOf(facts).mayPoll - of(account)),
    reserve: (account: string, polls: number): void => void reserved.set(account, of(account) + polls),
  };
}

/** Accounts whose last pass met a fault. Scheduled passes skip them for a growing wait. */
function createFaults(clock: Clock) {
  const faults = new Map<string, { readonly stop: FaultStop; readonly passes: number }>();
  return {
    of: (account: string): FaultStop | null => faults.get(account)?.stop ?? null,
    until: (account: string): number => faults.get(account)?.stop.until ?? 0,
    note(account: string, { reason, detail }: FaultStop): FaultStop {
      const passes = (faults.get(account)?.passes ?? 0) + 1;
      const stop = { reason, detail, until: clock.now() + waitAfterFailure(passes) };
      faults.set(account, { stop, passes });
      return stop;
    },
    end: (account: string): boolean => faults.delete(account),
    clear: (): void => faults.clear(),
  };
}
