import type { Settings } from "../config/schema.ts";
import type { Clock } from "../event/clock.ts";
import { isTruncated } from "../event/envelope.ts";
import type { ReceivedEvent } from "../event/received.ts";
import { createHydrator } from "../hydrate/hydrator.ts";
import type { News, Outside, ReadAnswer } from "../hydrate/port.ts";
import type { Logger } from "../observe/logger.ts";
import type { Metrics } from "../observe/metrics.ts";
import { ServiceError } from "../service-api/service-error.ts";
import type { DueDelivery } from "../store/planned.ts";
import type { SqliteStore } from "../store/sqlite/sqlite-store.ts";
import { type Learning, webhooksTell } from "./learning.ts";
import { pollMessage } from "./polling.ts";
import type { ServiceAccounts } from "./service-accounts.ts";

export interface HydratingParts {
  readonly settings: () => Settings;
  readonly store: SqliteStore;
  readonly services: Pick<ServiceAccounts, "client">;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly metrics: () => Metrics;
  readonly learning: Learning;
  /** False while sends need what is left of the month's calls. */
  readonly mayPoll: (account: string) => boolean;
  readonly offer: (due: readonly DueDelivery[]) => void;
}

export type Hydrating = ReturnType<typeof createHydrating>;

/** Hydration, put together from the store, the service's clients, and the front door for what it learns. */
export function createHydrating({ settings, store, services, clock, random, log, metrics, learning, mayPoll, offer }: HydratingParts) {
  function offered<T extends { readonly due: readonly DueDelivery[] }>(settled: T): T {
    offer(settled.due);
    return settled;
  }

  async function learn({ account, source, messageId, wamid, status, errorCode, because }: News): Promise<boolean> {
    // No event was about such a status, a truncated one neither.
    if (!webhooksTell(status)) return false;
    const state = store.messageState(account, wamid) ?? unseen;
    if (!learning.moves(state, status, errorCode)) return false;
    return learning.learn({ account, source, origin: "hydrate", messageId, wamid, status, errorCode, because });
  }

  const outside: Outside = {
    async read(account, messageId, signal) {
      const client = services.client(account);
      if (client === null) return { type: "no-key" };
      // As when nobody can be asked: sweeps wait, and end when their time is up.
      if (!mayPoll(account)) return { type: "later", until: null };
      let at = clock.now();
      const leaving = () => {
        at = clock.now();
      };
      try {
        const { id, wamid, status, errorCode } = await pollMessage(client, messageId, { signal, leaving });
        return { type: "told", at, told: { messageId: id, wamid, status, errorCode: errorCode ?? null } };
      } catch (error) {
        if (error instanceof ServiceError) return answerOf(error, at);
        if (signal.aborted) return { type: "later", until: null };
        throw error;
      }
    },
    learn,
  };
  const hydrator = createHydrator(settings().hydrate, {
    store: {
      ...store,
      settleTarget: async (...order) => offered(await store.settleTarget(...order)),
      settleCovered: async (...order) => offered(await store.settleCovered(...order)),
    },
    outside,
    clock,
    random,
    hooks: {
      onAsked({ account }, asked, changed) {
        metrics().hydration.asks.inc({ account }, asked);
        if (changed > 0) metrics().hydration.found.inc({ account }, changed);
      },
      onSettled: ({ account }, state, events) => metrics().hydration.settled.inc({ account, state }, events),
      swept({ account, covered }, tally, tookMs) {
        metrics().hydration.sweeps.inc({ account });
        const { events, gaveUp, ...counts } = tally;
        const line = { account, truncated: Math.max(events, covered.events), ...counts, tookMs };
        if (gaveUp === null) log.info(line, "truncated events: the messages that could be meant are read");
        else log.warn({ ...line, reason: gaveUp }, "truncated events: not all messages that could be meant could be read");
      },
      failed(account, error) {
        // That nothing can be stored is said by the store itself, once.
        if (error instanceof Error && error.name === "StoreUnavailable") return;
        log.error({ err: error, account }, "hydration failed; it will be tried again");
      },
    },
  });

  return {
    start: hydrator.start,
    /** An event was stored. */
    stored({ account, envelope, subject }: ReceivedEvent): void {
      if (!isTruncated(envelope) || subject.type !== "none") return;
      if (envelope.event.startsWith("message.") && services.client(account) !== null) hydrator.wake(account);
      else metrics().hydration.settled.inc({ account, state: "given-up" });
    },
    reload: (next: Settings): void => hydrator.reload(next.hydrate),
    /** To be called before the clients are closed, and resolved before the store is. */
    close: hydrator.close,
  };
}

const unseen = { status: null, errorCode: null, times: {} };

function answerOf({ failure }: ServiceError, at: number): ReadAnswer {
  switch (failure.kind) {
    case "not-found":
      return { type: "missing", at };
    case "validation":
      return { type: "refused" };
    case "quota":
      return { type: "later", until: failure.until };
    default:
      return { type: "later", until: null };
  }
}
