import type { Settings } from "../config/schema.ts";
import type { Diagnosis } from "../inspect/diagnosis.ts";
import { budgetOf } from "../reconcile/polls.ts";
import { isTemporaryRejection } from "../send/settings.ts";
import { createServiceAccounts } from "../service/accounts.ts";
import { ServiceError } from "../service/errors.ts";
import { createPolling } from "../service/polling.ts";
import { StoreUnavailable } from "../store/port.ts";
import { createStatusIntake } from "./accept.ts";
import { createCallUsage } from "./call-usage.ts";
import { limiterHooks } from "./hooks.ts";
import { createHydrating } from "./hydrating.ts";
import { createReconciling } from "./reconciling.ts";
import { createSending } from "./sending.ts";
import type { Stored } from "./store.ts";
import { createWatching } from "./watching.ts";

export type Service = ReturnType<typeof startService>;

/**
 * The third phase: calling the messaging service, and detecting when its webhooks do not arrive.
 */
export function startService(stored: Stored) {
  const { run, live, settings, redactor, log, tracing, store, budgets, clock, accepting } = stored;
  const { calls, random, cleanup } = run;
  const { shutdownTimeout } = live.initial.server;
  const accountsOf = (from: Settings) => (calls ? from.accounts : {});
  const usage = createCallUsage(stored);
  const services = createServiceAccounts(accountsOf(settings()), {
    clock,
    random,
    isTemporary: (text) => isTemporaryRejection(text, settings().send.temporaryRejections),
    recent: store.recentCalls,
    budgets,
    redact: redactor.text,
    hooks: (account) => ({
      ...limiterHooks(account, stored, {
        called(of, operation, outcome) {
          usage.ended(of, operation, outcome);
          if (outcome.type === "answered") watching.keyWorked(of);
        },
        keyRefused: (refused) => watching.keyRefused(refused),
      }),
      // A call that cannot be stored is missing only if this process ends within the minute.
      dispatched: (call) => void store.noteCall(account, call).catch(() => {}),
    }),
  });
  const shared = { ...stored, services, usage };
  const intake = createStatusIntake(stored);
  const watching = createWatching(shared);
  const polling = createPolling({ services, now: clock.now, polled: watching.polled });
  const pollingFor = (origin: "hydrate" | "reconcile") =>
    tracing?.polling(polling, origin) ?? polling;
  const reconciling = createReconciling({
    ...shared,
    intake,
    polling: pollingFor("reconcile"),
    watching,
  });
  const mayPoll = async (account: string) => budgetOf(await usage.facts(account)).spare > 0;
  const hydrating = createHydrating({ ...shared, intake, polling: pollingFor("hydrate"), mayPoll });
  const sending = createSending({
    ...shared,
    registered: (account) => watching.registered(account, undefined),
  });

  // Stores the last sends and counts, after the last request.
  cleanup.defer(async () => {
    await sending.close();
    await usage.written();
  });
  // The callers first: their waiting calls are released instead of failing with the clients.
  cleanup.together(() =>
    Promise.all([
      reconciling.close(),
      hydrating.close(),
      services.close(shutdownTimeout),
      watching.close(),
    ]),
  );
  live.follow((next) => {
    services.reload(accountsOf(next));
    reconciling.reload();
  });
  accepting.on("accepted", watching.arrived);
  accepting.on("truncated", hydrating.stored);

  return {
    sending: tracing?.sending(sending.port) ?? sending.port,
    reconcile: reconciling.handlers,
    limiters: services.limiters,
    stops: services.stops,
    /**
     * Ends the quota stops of an account on an operator's request; resolves with those that were in
     * force.
     */
    async resumeAccount(account: string): Promise<readonly string[]> {
      const ended = await services.resume(account).catch((error: unknown) => {
        if (!(error instanceof ServiceError)) throw error;
        throw new StoreUnavailable(
          "whether the account's stops have ended is not known: the processes that share it cannot be reached",
        );
      });
      log.info({ account, ended }, "an operator ended the stops of the account's quotas");
      return ended;
    },
    alarms: watching.alarms,
    refused: watching.refused,
    registered: watching.registered,
    start(diagnose: () => Promise<Diagnosis>): void {
      watching.start(diagnose);
      hydrating.start();
    },
  };
}
