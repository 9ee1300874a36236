import type { Settings } from "../config/schema.ts";
import type { Clock } from "../model/clock.ts";
import type { ReceivedEvent } from "../model/event.ts";
import type { Logger, Privacy } from "../observe/logger.ts";
import type { Metrics } from "../observe/metrics.ts";
import { budgetOf } from "../reconcile/polls.ts";
import { isTemporaryRejection } from "../send/settings.ts";
import { createServiceAccounts } from "../service/accounts.ts";
import { ServiceError } from "../service/errors.ts";
import { type Store, StoreUnavailable } from "../store/port.ts";
import type { AcceptOutcome } from "../store/rules.ts";
import { createCallUsage } from "./call-usage.ts";
import type { Diagnosis } from "./diagnosis.ts";
import type { Engine } from "./engine.ts";
import { limiterHooks } from "./hooks.ts";
import { createHydrating } from "./hydrating.ts";
import { createPolling, createStatusIntake } from "./polling.ts";
import { createReconciling } from "./reconciling.ts";
import { createRelaySending } from "./sending.ts";
import type { Supervisor } from "./supervise.ts";
import type { Tracing } from "./tracing.ts";
import { createWatching } from "./watching.ts";

export interface ServiceSideParts {
  /** The current settings. */
  readonly settings: () => Settings;
  readonly store: Store;
  readonly budgets: Engine["budgets"];
  readonly clock: Clock;
  readonly supervise: Supervisor["supervise"];
  readonly random: () => number;
  readonly log: Logger;
  readonly privacy: Privacy;
  /** Removes secrets from the service's texts. */
  readonly redact: (text: string) => string;
  readonly metrics: Metrics;
  /** Accepts the events made of polled statuses. */
  readonly accept: (event: ReceivedEvent) => Promise<AcceptOutcome>;
  /** Whether the service is called at all. */
  readonly calls: boolean;
  /** False: it is called only on request. */
  readonly scheduled: boolean;
  /** Null while traces are off. */
  readonly tracing: Pick<Tracing, "polling" | "hydrated" | "sending"> | null;
  readonly diagnose: () => Promise<Diagnosis>;
}

/** The window of the per-minute caps, and the time that calls in it may have taken. */
const recentMs = 180_000;

/** The messaging service's side of the relay: calling it, and detecting when its webhooks do not arrive. */
export function createServiceSide(parts: ServiceSideParts) {
  const { settings, store, budgets, clock, supervise, random, log, privacy, redact, metrics, accept, calls, scheduled, tracing, diagnose } =
    parts;
  const accountsOf = (from: Settings) => (calls ? from.accounts : {});
  const usage = createCallUsage({ store, clock, supervise, settings });
  const services = createServiceAccounts(accountsOf(settings()), {
    clock,
    random,
    isTemporary: (text) => isTemporaryRejection(text, settings().send.temporaryRejections),
    recent: (account) => store.recentCalls(account, clock.now() - recentMs),
    budgets,
    redact,
    hooks: (account) => ({
      ...limiterHooks(account, {
        log,
        metrics,
        called(of, priority, outcome) {
          usage.ended(of, priority, outcome);
          if (outcome.type === "answered") watching.keyWorked(of);
        },
        keyRefused: (refused) => watching.keyRefused(refused),
      }),
      // A call that cannot be stored is missing only if this process ends within the minute.
      dispatched: (call) => void store.noteCall(account, call).catch(() => {}),
    }),
  });
  const shared = { settings, store, services, usage, clock, supervise, log, metrics };
  const intake = createStatusIntake({ settings, now: clock.now, accept });
  const watching = createWatching({ ...shared, diagnose });
  const polling = createPolling({ services, polled: watching.polled });
  const pollingFor = (origin: "hydrate" | "reconcile") => tracing?.polling(polling, origin) ?? polling;
  const reconciling = createReconciling({ ...shared, intake, polling: pollingFor("reconcile"), watching, scheduled });
  const mayPoll = async (account: string) => budgetOf(await usage.facts(account)).spare > 0;
  const hydrating = createHydrating({
    ...shared,
    random,
    intake,
    polling: pollingFor("hydrate"),
    mayPoll,
    scheduled,
    passed: tracing?.hydrated,
  });
  const sending = createRelaySending({
    ...shared,
    privacy,
    registered: (account) => watching.registered(account, undefined),
    known: () => ({ accounts: Object.keys(settings().accounts), maxWait: settings().send.maxWait }),
  });

  return {
    sending: tracing?.sending(sending.port) ?? sending.port,
    reconcile: reconciling.port,
    limiters: services.limiters,
    stops: services.stops,
    /** Ends the quota stops of an account on an operator's request; resolves with those that were in force. */
    async resumeAccount(account: string): Promise<readonly string[]> {
      const ended = await services.resume(account).catch((error: unknown) => {
        if (!(error instanceof ServiceError)) throw error;
        throw new StoreUnavailable("whether the account's stops have ended is not known: the processes that share it cannot be reached");
      });
      log.info({ account, ended: ended ?? [] }, "an operator ended the stops of the account's quotas");
      return ended ?? [];
    },
    alarms: watching.alarms,
    arrived: watching.arrived,
    truncated: hydrating.stored,
    /** A bad signature at a source. */
    refused: watching.refused,
    registered: watching.registered,
    async start(): Promise<void> {
      await watching.start();
      await hydrating.start();
    },
    reload(next: Settings): void {
      services.reload(accountsOf(next));
      reconciling.reload(next);
      hydrating.reload(next);
    },
    /** Resolves when no call is made any more; calls in flight are cut after `withinMs`. */
    async close(withinMs: number): Promise<void> {
      // The callers first: their waiting calls are released instead of failing with the clients.
      await Promise.all([reconciling.close(), hydrating.close(), services.close(withinMs), watching.close()]);
    },
    /** Stores the last sends and counts. Call it after the last request, before the store is closed. */
    async end(): Promise<void> {
      await sending.close();
      await usage.close();
    },
  };
}
