import type { SendingPort } from "../control/sending.ts";
import type { Clock } from "../model/clock.ts";
import type { Logger, Privacy } from "../observe/logger.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { OnceHooks } from "../send/once.ts";
import { createSending } from "../send/sending.ts";
import type { ServiceAccounts } from "../service/accounts.ts";
import type { Store } from "../store/port.ts";
import { createSendingPort } from "./sending-port.ts";
import { createServiceCalls } from "./service-calls.ts";

export interface RelaySendingParts {
  readonly store: Pick<Store, "findSend" | "beginSend" | "settleSend" | "announce">;
  readonly services: Pick<ServiceAccounts, "client" | "limiters">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly privacy: Privacy;
  readonly metrics: () => Metrics;
  /** A message was sent and registered. */
  readonly registered: (account: string) => void;
  readonly known: () => { readonly accounts: readonly string[]; readonly maxWait: number };
}

/** Sending, put together from the store, the service's clients and who watches. */
export function createRelaySending({ store, services, clock, log, privacy, metrics, registered, known }: RelaySendingParts): {
  readonly port: SendingPort;
  /** Resolves when the calls under way have ended and are stored. */
  close(): Promise<void>;
} {
  const { now } = clock;
  const sending = createSending({
    clock,
    calls: createServiceCalls({ services, now }),
    store: {
      find: async (key) => store.findSend(key),
      begin: store.beginSend,
      async settle(key, ended) {
        store.announce(await store.settleSend(key, ended));
        if (ended.end === "done" && ended.sent.type === "message") registered(key.account);
      },
    },
    hooks: sendingHooks({ log, privacy, metrics }),
  });
  return { port: createSendingPort({ sending, now, known, limiters: services.limiters }), close: sending.close };
}

function sendingHooks({ log, privacy, metrics }: Pick<RelaySendingParts, "log" | "privacy" | "metrics">): OnceHooks {
  return {
    ended({ key: { account, kind }, about, resend }, outcome, tookMs, reason) {
      metrics().sends.inc({ account, kind, outcome });
      const line = {
        account,
        kind,
        ...(kind === "run" ? { automation: privacy.id("automation", about) } : { to: about }),
        outcome,
        ...(reason === null ? {} : { reason: privacy.text(reason) }),
        tookMs,
        ...(resend > 0 ? { resend } : {}),
      };
      if (outcome === "unknown")
        log.error(line, "nobody knows whether it was sent; its key answers outcome_unknown until it is sent again on purpose");
      else log.info(line, "send");
    },
    notStored({ key: { account, kind } }, end, error) {
      // That nothing can be stored is said by the store itself, for all.
      log.error({ account, kind, end, err: error }, "what became of a send cannot be stored; it is tried again while this process lives");
    },
  };
}
