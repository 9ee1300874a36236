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
import type { Engine } from "./engine.ts";
import { limiterHooks } from "./hooks.ts";
import { createHydrating } from "./hydrating.ts";
import { createLearning } from "./learning.ts";
import { createPolling } from "./polling.ts";
import { createReconciling } from "./reconciling.ts";
import { createRelaySending } from "./sending.ts";
import { createWatching } from "./watching.ts";

export interface ServiceSideParts {
  /** In force now. */
  readonly settings: () => Settings;
  readonly store: Store;
  /** The caps of an account, where processes share them. */
  readonly caps: Engine["caps"];
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly privacy: Privacy;
  /** Takes secrets out of what the service says. */
  readonly redact: (text: string) => string;
  readonly metrics: () => Metrics;
  /** The front door, for what is learned by asking. */
  readonly accept: (event: ReceivedEvent) => Promise<AcceptOutcome>;
  /** Whether the service is called at all. */
  readonly calls: boolean;
  /** False: nothing is asked but what somebody tells it to. */
  readonly scheduled: boolean;
}

/** Calls counted against a cap of the minute, and the time they may have taken. */
const recentMs = 180_000;

/** All of the relay that has to do with the messaging service itself: calling it, and noticing when it does not call. */
export function createServiceSide(parts: ServiceSideParts) {
  const { settings, store, caps, clock, random, log, privacy, redact, metrics, accept, calls, scheduled } = parts;
  const accountsOf = (from: Settings) => (calls ? from.accounts : {});
  const usage = createCallUsage({
    store,
    clock,
    settings,
    failed(error) {
      // That nothing can be stored is said by the store itself, once.
      if (!(error instanceof Error && error.name === "StoreUnavailable"))
        log.error({ err: error }, "calls could not be counted; tried again");
    },
  });
  const services = createServiceAccounts(accountsOf(settings()), {
    clock,
    random,
    isTemporary: (text) => isTemporaryRejection(text, settings().send.temporaryRejections),
    recent: (account) => store.recentCalls(account, clock.now() - recentMs),
    shared: caps,
    redact,
    hooks: (account) => ({
      ...limiterHooks(account, { log, metrics, called: usage.ended, keyRefused: (refused) => watching.keyRefused(refused) }),
      // One that cannot be stored is missing only if this process ends within the minute.
      letGo: (call) => void store.noteCall(account, call).catch(() => {}),
    }),
  });
  const shared = { settings, store, services, usage, clock, log, metrics };
  const learning = createLearning({ settings, now: clock.now, accept });
  const watching = createWatching(shared);
  const polling = createPolling({ services, noted: watching.polled });
  const reconciling = createReconciling({ ...shared, learning, polling, watching, scheduled });
  const mayPoll = async (account: string) => budgetOf(await usage.facts(account)).spare > 0;
  const hydrating = createHydrating({ ...shared, random, learning, polling, mayPoll, scheduled });
  const sending = createRelaySending({
    ...shared,
    privacy,
    registered: (account) => watching.registered(account, undefined),
    known: () => ({ accounts: Object.keys(settings().accounts), maxWait: settings().send.maxWait }),
  });

  return {
    sending: sending.port,
    reconcile: reconciling.port,
    limiters: services.limiters,
    /** Stops of calls that are in force, for `/readyz`. */
    stops: services.stops,
    /** Ends the stops of an account's quotas by an operator's order; gives those that there were. */
    async resumeAccount(account: string): Promise<readonly string[]> {
      const ended = await services.resume(account).catch((error: unknown) => {
        if (!(error instanceof ServiceError)) throw error;
        throw new StoreUnavailable("whether the account's stops have ended is not known: the processes that share it cannot be reached");
      });
      log.info({ account, ended: ended ?? [] }, "an operator ended the stops of the account's quotas");
      return ended ?? [];
    },
    alarms: watching.alarms,
    /** An event was stored. */
    stored(event: ReceivedEvent): void {
      // What is released came long before: it does not end a silence of the service.
      if (event.releaseOf === undefined) watching.arrived(event);
      hydrating.stored(event);
    },
    /** A bad signature at a source. */
    refused: watching.refused,
    /** A message was registered; `sentAt` in unix ms, when told. */
    registered: watching.registered,
    async start(): Promise<void> {
      watching.start();
      await hydrating.start();
    },
    reload(next: Settings): void {
      services.reload(accountsOf(next));
      reconciling.reload(next);
      hydrating.reload(next);
    },
    /** Resolves when nothing is asked any more; calls are cut after `withinMs`. */
    async close(withinMs: number): Promise<void> {
      // Who asks first: calls that wait are given back, and do not fail with the clients.
      await Promise.all([reconciling.close(), hydrating.close(), services.close(withinMs), watching.close()]);
    },
    /** To be called when no request comes any more, and before the store is closed: the last of what was sent and counted is stored. */
    async end(): Promise<void> {
      await sending.close();
      usage.close();
      await usage.write();
    },
  };
}
