import type { Settings } from "../config/schema.ts";
import type { PlainHandlers } from "../control/routes.ts";
import type { AccountsView } from "../model/answers/accounts.ts";
import { RelayError } from "../model/errors.ts";
import { refuseUnknown } from "../model/nearest.ts";
import type { LastPass } from "../model/poll.ts";
import type { OfAccounts } from "../model/queries.ts";
import { createTimetable, nextRun } from "../model/schedule.ts";
import { isSentByWebhook } from "../model/statuses.ts";
import type { Logger } from "../observe/logger.ts";
import type { Metrics } from "../observe/metrics.ts";
import { type AccountSummary, createPasses, unreachable } from "../reconcile/passes.ts";
import { type BudgetFacts, budgetOf, isFaultStop } from "../reconcile/polls.ts";
import type { ServiceAccounts } from "../service/accounts.ts";
import type { Polling } from "../service/polling.ts";
import { StoreUnavailable } from "../store/port.ts";
import type { StatusIntake } from "./accept.ts";
import type { CallUsage } from "./call-usage.ts";
import type { Stored } from "./store.ts";
import type { Watching } from "./watching.ts";

interface ReconcilingParts extends Stored {
  readonly services: ServiceAccounts;
  readonly usage: CallUsage;
  readonly intake: StatusIntake;
  readonly polling: Polling;
  readonly watching: Watching;
}

/**
 * One API call ends after this and returns whether there is more, so that the relay can stop and
 * the client show progress.
 */
const longestMs = 5_000;

/** Longer than the minute between scheduled passes, so that the same process keeps the lead. */
const leaseMs = 90_000;

/** Polls on the configured schedule and on request. */
export function createReconciling(parts: ReconcilingParts) {
  const {
    run,
    settings,
    store,
    services,
    usage,
    intake,
    polling,
    watching,
    clock,
    supervise,
    log,
    metrics,
  } = parts;
  const passes = createPasses({
    ...polling,
    settings: () => settings().reconcile,
    store,
    clock,
    facts: usage.facts,
    async submit(account, { wamid, messageId, state }, { status, errorCode }) {
      const isNews = await intake(state, {
        account,
        origin: "reconcile",
        messageId,
        wamid,
        status,
        errorCode,
      });
      if (isNews && isSentByWebhook(status)) watching.found(account, wamid, status);
      return isNews;
    },
    polled: (account, outcome) => metrics.reconcile.polls.inc({ account, outcome }),
    failed,
  });
  const closing = new AbortController();
  const inFlight = new Set<Promise<unknown>>();
  const scheduled = new Set<string>();
  const timetable = createTimetable(clock.now);
  const report = createReport(log, metrics);
  const accountsOf = (of: OfAccounts) => chooseAccounts(of, services.callable(), settings());

  function failed(account: string, error: unknown): void {
    // The store reports itself when it is unavailable.
    if (!(error instanceof StoreUnavailable))
      log.error({ err: error, account }, "polling a message failed");
  }

  async function pass(
    account: string,
    dueBy: number,
    signal: AbortSignal,
  ): Promise<AccountSummary> {
    const summary = await passes.pass(account, dueBy, AbortSignal.any([signal, closing.signal]));
    report(summary);
    // What cannot be stored is replaced by the next pass, a minute later.
    notePass(summary).catch(() => {});
    return summary;
  }

  function kept<T>(running: Promise<T>): Promise<T> {
    inFlight.add(running);
    const forget = () => void inFlight.delete(running);
    running.then(forget, forget);
    return running;
  }

  async function scheduledPass(account: string): Promise<void> {
    // The previous one is still running, or all its polls met a fault.
    if (scheduled.has(account) || clock.now() < passes.faultyUntil(account)) return;
    scheduled.add(account);
    try {
      if (await store.holdLease(`reconcile ${account}`, leaseMs))
        await pass(account, clock.now(), closing.signal);
    } catch (error) {
      failed(account, error);
    } finally {
      scheduled.delete(account);
    }
  }

  const schedule = supervise({
    name: "reconciliation",
    firstMs: 0,
    run() {
      // A process that does not work polls on request only.
      const { isDue, waitMs } = timetable(run.works ? settings().reconcile.schedule : "off");
      for (const account of isDue ? services.callable() : []) void kept(scheduledPass(account));
      return waitMs;
    },
  });

  async function notePass({ more: _, ...summary }: AccountSummary): Promise<void> {
    const before = await store.lastPass(summary.account);
    const endedAt = clock.now();
    await store.notePass({ ...summary, endedAt, ...unreachable(summary, before, endedAt) });
  }

  const handlers: Pick<PlainHandlers, "reconcile" | "listAccounts"> = {
    async reconcile({ dryRun, dueBy: given, ...of }, { gone }) {
      if (dryRun) {
        const dueBy = clock.now();
        return {
          dueBy,
          accounts: await Promise.all(accountsOf(of).map((each) => passes.plan(each, dueBy))),
        };
      }
      if (closing.signal.aborted) throw new RelayError("shutting_down", "the relay is stopping");
      const dueBy = Math.min(given ?? clock.now(), clock.now());
      const signal = AbortSignal.any([gone(), AbortSignal.timeout(longestMs)]);
      const accounts = await Promise.all(
        accountsOf(of).map((each) => kept(pass(each, dueBy, signal))),
      );
      await usage.written();
      return {
        dueBy,
        more: accounts.some(({ more }) => more),
        accounts: accounts.map(({ more, ...summary }) => summary),
      };
    },
    listAccounts: ({ accounts }) => viewAccounts(parts, accounts),
  };

  return {
    handlers,
    /** The settings have changed. */
    reload(): void {
      passes.forgetFaults();
      schedule.wake();
    },
    /**
     * Ends the passes in flight and releases their claims. To be called before the clients are
     * closed.
     */
    async close(): Promise<void> {
      closing.abort();
      await Promise.allSettled([schedule.close(), ...inFlight]);
    },
  };
}

/**
 * Those that a request means, of the callable ones. Throws `bad_request` for a name that is not
 * among them.
 */
function chooseAccounts(
  { account, accounts: limited }: OfAccounts,
  callable: readonly string[],
  { accounts }: Pick<Settings, "accounts">,
) {
  const all = callable.filter((each) => limited === undefined || limited.includes(each));
  if (account === undefined) return all;
  if (all.includes(account)) return [account];
  refuseUnknown("bad_request", "account", account, Object.keys(accounts));
  throw new RelayError(
    "bad_request",
    `the account "${account}" has no baseUrl and apiKey in the settings`,
    all,
  );
}

async function viewAccounts(
  { settings, store, services, usage, clock }: ReconcilingParts,
  limited: OfAccounts["accounts"],
): Promise<AccountsView> {
  const { accounts, reconcile } = settings();
  const callable = new Set(services.callable());
  const last = await store.lastPasses();
  const nextPassAt = reconcile.schedule === "off" ? null : nextRun(reconcile.schedule, clock.now());
  const stops = services.stops();
  const data = await Promise.all(
    Object.entries(accounts)
      .filter(([account]) => limited === undefined || limited.includes(account))
      .map(async ([account, { plan }]) => {
        const pass = last.find((each) => each.account === account);
        return {
          account,
          isCallable: callable.has(account),
          plan,
          stops: stops
            .filter((stop) => stop.account === account)
            .map(({ account: _, ...stop }) => stop),
          budget: budgetView(await usage.facts(account)),
          lastPass: pass === undefined ? null : passView(pass),
          nextPassAt: callable.has(account) ? nextPassAt : null,
        };
      }),
  );
  return { data };
}

function passView({
  account: _,
  unansweredAt: __,
  ...view
}: LastPass): AccountsView["data"][number]["lastPass"] {
  return view;
}

function budgetView(facts: BudgetFacts): AccountsView["data"][number]["budget"] {
  const { quota, month, before, today } = facts;
  const { left, mayPoll } = budgetOf(facts);
  return {
    ...month,
    quota,
    polls: before.polls + today.polls,
    others: before.others + today.others,
    left,
    pollsNow: quota === null ? null : mayPoll,
  };
}

function createReport(log: Logger, metrics: Metrics) {
  /** The last state logged of each account: a state that lasts is logged once. */
  const logged = new Map<string, string>();
  return ({ lastsUntil, stopped, more: _, ...counts }: AccountSummary): void => {
    const { account, polled, postponed } = counts;
    metrics.reconcile.postponed.set({ account }, postponed);
    const state = stopped?.reason ?? (postponed > 0 ? "postponed" : "");
    const isNews = polled > 0 || state !== (logged.get(account) ?? "");
    logged.set(account, state);
    if (!isNews) return;
    const line = {
      ...counts,
      ...(stopped === null
        ? {}
        : {
            stopped: stopped.reason,
            until: stopped.until === null ? null : new Date(stopped.until).toISOString(),
            ...(isFaultStop(stopped) ? { detail: stopped.detail } : {}),
          }),
      ...(lastsUntil === null ? {} : { lastsUntil: new Date(lastsUntil).toISOString() }),
    };
    if (postponed > 0) {
      const lasts =
        lastsUntil === null
          ? ""
          : `: at this rate it would be used up on ${new Date(lastsUntil).toISOString().slice(0, 10)}`;
      log.warn(
        line,
        `reconciled; ${postponed} polls wait, so that the month's quota lasts${lasts}`,
      );
    } else if (stopped !== null)
      log.warn(line, "reconciled, as far as the service could be polled");
    else log.info(line, "reconciled");
  };
}
