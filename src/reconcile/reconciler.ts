import { Cron } from "croner";
import type { Clock } from "../event/clock.ts";
import type { Soon } from "../event/soon.ts";
import {
  type AskingParts,
  type AskOutcome,
  askSome,
  budgetOf,
  firstSettledAge,
  judgeAsk,
  lastsUntil,
  released,
  restingStatuses,
  settledStatuses,
  waitAfterFailure,
} from "./polls.ts";
import {
  type AskStore,
  type BudgetFacts,
  type BudgetFactsOf,
  type ClaimedAsk,
  type FaultStop,
  isFaultStop,
  type PassStop,
  type Service,
  type SettledAsk,
  type Tracking,
} from "./port.ts";
import type { ReconcileSettings } from "./settings.ts";

interface ReconcilerParts {
  readonly store: AskStore;
  readonly service: Service;
  readonly tracking: Tracking;
  readonly budget: BudgetFactsOf;
  /** Whether the schedule's passes over an account are this process's to make, of several; not given: always. */
  readonly isOurs?: (account: string) => Soon<boolean>;
  readonly clock: Clock;
  readonly hooks: ReconcilerHooks;
}

export interface ReconcilerHooks {
  asked(account: string, outcome: AskOutcome): void;
  /** After each pass over an account, also one that found nothing to do. */
  passed(summary: AccountSummary): void;
  failed(account: string, error: unknown): void;
}

interface PassOptions {
  /** Only what was due by then (unix ms). */
  readonly dueBy: number;
  /** Ends the pass; requests on their way go on. */
  readonly patience: AbortSignal;
}

interface Reconciler {
  accounts(): readonly string[];
  /** Asks about what is due, in any number of passes at once: none asks what another does. */
  pass(account: string, options: PassOptions): Promise<AccountSummary>;
  /** What a pass would do. Asks and writes nothing. */
  plan(account: string, dueBy: number): Promise<AccountPlan>;
  reload(settings: ReconcileSettings): void;
  /** Ends the passes under way; resolves when what they claimed is given back. */
  close(): Promise<void>;
}

/** What a pass did about one account. */
export interface AccountSummary {
  readonly account: string;
  /** Calls that were answered or failed. */
  readonly asked: number;
  /** Of these, those that told of a status nobody had reported. */
  readonly changed: number;
  readonly unchanged: number;
  /** Answered 404, or with another message; polled no more once that is certain. */
  readonly missing: number;
  /** No answer, or none of use: asked again later. */
  readonly failed: number;
  /** Due, but postponed so that the month's quota lasts. */
  readonly leftForBudget: number;
  /** Known by wamid alone: nobody can ask about them. */
  readonly unaskable: number;
  readonly stopped: PassStop | null;
  /** Unix ms at which the quota would be used up if all were asked that is due; null: it lasts. */
  readonly lastsUntil: number | null;
  /** More is due that could be asked at once. */
  readonly more: boolean;
}

/** What a pass would do, without asking anything. */
interface AccountPlan {
  readonly account: string;
  readonly due: number;
  /** Calls that a pass would make at most. */
  readonly wouldAsk: number;
  readonly leftForBudget: number;
  readonly unaskable: number;
  /** Not known to the service, and polled no more. */
  readonly missing: number;
  readonly stopped: PassStop | null;
  readonly lastsUntil: number | null;
}

/** Claimed at once. A crash leaves so many to be asked about again when the lease runs out. */
const chunk = 100;
/** Longer than any chunk takes: half of it is the patience of its calls. */
const leaseMs = 600_000;

/** Asks the service about messages whose status went quiet, by the schedule of the settings and when told to. */
export function createReconciler(initial: ReconcileSettings, parts: ReconcilerParts): Reconciler {
  const { store, service, clock, hooks } = parts;
  let settings = initial;
  /** Asks that passes under way may still make, by account: the budget does not know of them yet. */
  const reserved = new Map<string, number>();
  const closing = new AbortController();
  const underWay = new Set<Promise<unknown>>();
  const scheduled = new Set<string>();
  /** Accounts whose last pass met a fault. The schedule leaves them alone for a while, longer each time. */
  const faults = new Map<string, { readonly stop: FaultStop; readonly passes: number; readonly until: number }>();
  let cancel = (): void => {};

  const mayAskBy = (account: string, facts: BudgetFacts): number => Math.max(0, budgetOf(facts).mayAsk - (reserved.get(account) ?? 0));
  const mayAsk = async (account: string): Promise<number> => mayAskBy(account, await parts.budget(account));

  async function askChunk(account: string, { dueBy, patience }: PassOptions, asking: AskingParts) {
    const now = clock.now();
    const claims = await store.claimAsks({ account, now, dueBy, after: settings.after, limit: chunk, leaseMs });
    const settled: SettledAsk[] = [];
    const due: ClaimedAsk[] = [];
    for (const claim of claims) {
      const judged = judgeAsk(claim, now, settings);
      if (judged.ask) due.push(claim);
      else settled.push(judged.settled);
    }
    const facts = await parts.budget(account);
    // Between this and the reservation nothing is waited for: no other pass takes the same room.
    const may = mayAskBy(account, facts);
    settled.push(...due.slice(may).map(released));
    const tooLong = new AbortController();
    const cancelLease = clock.after(leaseMs / 2, () => tooLong.abort());
    const reserving = Math.min(due.length, may);
    reserved.set(account, (reserved.get(account) ?? 0) + reserving);
    let stopped: PassStop | null = null;
    try {
      const asked = await askSome(account, due.slice(0, may), AbortSignal.any([patience, tooLong.signal]), asking);
      settled.push(...asked.settled);
      stopped = asked.stopped;
    } finally {
      cancelLease();
      reserved.set(account, (reserved.get(account) ?? 0) - reserving);
      await store.settleAsks(settled);
    }
    return { stopped, isLast: claims.length === 0 || due.length > may };
  }

  async function runPass(account: string, options: PassOptions): Promise<AccountSummary> {
    const sums: Record<AskOutcome, number> = { changed: 0, unchanged: 0, missing: 0, failed: 0 };
    const asking: AskingParts = {
      ...parts,
      times: settings,
      now: clock.now,
      asked(of, outcome) {
        sums[outcome] += 1;
        hooks.asked(of, outcome);
      },
      failed: hooks.failed,
    };
    const patience = AbortSignal.any([options.patience, closing.signal]);
    let stopped: PassStop | null = holdNow(account);
    while (stopped === null && !patience.aborted && (await mayAsk(account)) > 0) {
      const done = await askChunk(account, { ...options, patience }, asking);
      stopped = done.stopped;
      if (done.isLast) break;
    }
    if (isFaultStop(stopped)) stopped = noteFault(account, stopped);
    else if (sums.changed + sums.unchanged > 0) faults.delete(account);
    const { due, unaskable } = await countsOf(account, options.dueBy);
    const facts = await parts.budget(account);
    const isBudget = due > 0 && stopped === null && mayAskBy(account, facts) === 0;
    const leftForBudget = isBudget ? due : 0;
    const summary: AccountSummary = {
      account,
      asked: sums.changed + sums.unchanged + sums.missing + sums.failed,
      ...sums,
      leftForBudget,
      unaskable,
      stopped,
      lastsUntil: isBudget ? lastsUntil(facts, budgetOf(facts), leftForBudget) : null,
      more: due > 0 && stopped === null && !isBudget,
    };
    hooks.passed(summary);
    return summary;
  }

  function noteFault(account: string, { reason, detail }: FaultStop): FaultStop {
    const passes = (faults.get(account)?.passes ?? 0) + 1;
    const until = clock.now() + waitAfterFailure(passes);
    const stop = { reason, detail, until };
    faults.set(account, { stop, passes, until });
    return stop;
  }

  /** A refused key or a used-up quota is tried again by the one call that its limiter lets through once the wait is over. */
  function holdNow(account: string): PassStop | null {
    const hold = service.hold(account);
    if (hold === null) return null;
    return hold.until !== null && hold.until <= clock.now() ? null : hold;
  }

  function countsOf(account: string, dueBy: number) {
    const { after, giveUpAfter, until } = settings;
    return store.countAsks({
      account,
      dueBy,
      after,
      from: clock.now() - giveUpAfter,
      resting: restingStatuses(until),
      rare: { statuses: settledStatuses, sentBy: dueBy - firstSettledAge(after) },
    });
  }

  function keep<T>(running: Promise<T>): Promise<T> {
    underWay.add(running);
    const forget = () => void underWay.delete(running);
    running.then(forget, forget);
    return running;
  }

  async function scheduledPass(account: string): Promise<void> {
    if (clock.now() < (faults.get(account)?.until ?? 0)) return;
    if ((await parts.isOurs?.(account)) !== false) await runPass(account, { dueBy: clock.now(), patience: closing.signal });
  }

  function tick(): void {
    for (const account of service.accounts()) {
      // One that takes longer than the schedule's pause goes on alone.
      if (scheduled.has(account)) continue;
      scheduled.add(account);
      keep(scheduledPass(account))
        .catch((error: unknown) => hooks.failed(account, error))
        .finally(() => scheduled.delete(account));
    }
  }

  function wait(): void {
    const at = settings.schedule === "off" ? null : nextRun(settings.schedule, clock.now());
    if (at === null || closing.signal.aborted) return;
    cancel = clock.after(Math.min(at - clock.now(), longestWaitMs), () => {
      if (clock.now() >= at) tick();
      wait();
    });
  }

  wait();
  return {
    accounts: service.accounts,
    pass: (account, options) => keep(runPass(account, options)),
    async plan(account, dueBy) {
      const { due, unaskable, missing } = await countsOf(account, dueBy);
      const facts = await parts.budget(account);
      const budget = budgetOf(facts);
      const hold = holdNow(account);
      const may = mayAskBy(account, facts);
      const leftForBudget = Math.max(0, due - may);
      return {
        account,
        due,
        wouldAsk: hold === null ? Math.min(due, may) : 0,
        leftForBudget,
        unaskable,
        missing,
        stopped: hold ?? faults.get(account)?.stop ?? null,
        lastsUntil: leftForBudget > 0 ? lastsUntil(facts, budget, leftForBudget) : null,
      };
    },
    reload(next) {
      cancel();
      settings = next;
      faults.clear();
      wait();
    },
    async close() {
      cancel();
      closing.abort();
      await Promise.allSettled(underWay);
    },
  };
}

/** When a cron pattern (UTC) comes next after `now`, in unix ms; null: never. */
function nextRun(pattern: string, now: number): number | null {
  return new Cron(pattern, { paused: true, utcOffset: 0 }).nextRun(new Date(now))?.getTime() ?? null;
}

/** A clock that was set, or a machine that slept, is noticed within this. */
const longestWaitMs = 60_000;
