import type { Settings } from "../config/schema.ts";
import { createHydrator } from "../hydrate/hydrator.ts";
import type { HydratedStatus, HydrationMessages, ReadAnswer } from "../hydrate/pass.ts";
import type { Clock } from "../model/clock.ts";
import { isTruncated } from "../model/envelope.ts";
import type { ReceivedEvent } from "../model/event.ts";
import type { Logger } from "../observe/logger.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { ServiceAccounts } from "../service/accounts.ts";
import type { ServiceError } from "../service/errors.ts";
import type { Store } from "../store/port.ts";
import { type DueDelivery, unseenMessage } from "../store/rules.ts";
import { type Learning, webhooksTell } from "./learning.ts";
import type { Polling } from "./polling.ts";

export interface HydratingParts {
  readonly settings: () => Settings;
  readonly store: Store;
  readonly services: Pick<ServiceAccounts, "client">;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly metrics: () => Metrics;
  readonly learning: Learning;
  readonly polling: Polling;
  /** False while sends need what is left of the month's calls. */
  readonly mayPoll: (account: string) => Promise<boolean>;
  /** False: what is truncated is left to a process that works. */
  readonly scheduled: boolean;
}

/** Where several processes share the store. */
const lookEveryMs = 1_000;
const dutyMs = 15_000;
/** No message is to blame while all polls of an account are faulty: one call looks again after this. */
const faultyMs = 5 * 60_000;

export type Hydrating = ReturnType<typeof createHydrating>;

/** Hydration, put together from the store, the service's clients, and the front door for what it learns. */
export function createHydrating(parts: HydratingParts) {
  const { settings, store, services, clock, random, log, metrics, learning, polling, mayPoll, scheduled } = parts;
  let cancel = (): void => {};
  let isClosed = false;

  function announced<T extends { readonly due: readonly DueDelivery[] }>(settled: T): T {
    store.announce(settled.due);
    return settled;
  }

  /** One process reads for an account, while events of it wait. */
  const isOurs = (account: string) => store.duty(`hydrate ${account}`, dutyMs);

  async function submit({ account, source, messageId, wamid, status, errorCode, because }: HydratedStatus): Promise<boolean> {
    // No event was about such a status, a truncated one neither.
    if (!webhooksTell(status)) return false;
    const state = (await store.messageState(account, wamid)) ?? unseenMessage;
    if (!learning.moves(state, status, errorCode)) return false;
    return learning.learn({ account, source, origin: "hydrate", messageId, wamid, status, errorCode, because });
  }

  const messages: HydrationMessages = {
    async read(account, messageId, signal) {
      if (services.client(account) === null) return { type: "no-key" };
      // As when nobody can be asked: sweeps wait, and end when their time is up.
      if (!(await mayPoll(account))) return { type: "later", until: null };
      let at = clock.now();
      const leaving = () => {
        at = clock.now();
      };
      try {
        const answer = await polling.poll(account, messageId, { signal, leaving });
        switch (answer.type) {
          case "found": {
            const { wamid, status, errorCode } = answer;
            return { type: "found", at, found: { messageId, wamid, status, errorCode } };
          }
          case "missing":
            return { type: "missing", at, isCredible: answer.isCredible };
          case "faulty":
            return { type: "later", until: clock.now() + faultyMs };
          case "error":
            return answerOf(answer.error);
          case "no-client":
            return { type: "no-key" };
        }
      } catch (error) {
        if (signal.aborted) return { type: "later", until: null };
        throw error;
      }
    },
    submit,
  };
  const hydrator = createHydrator(settings().hydrate, {
    store: {
      ...store,
      beginPass: async (account, now) => ((await isOurs(account)) ? store.beginPass(account, now) : null),
      settleTarget: async (...order) => announced(await store.settleTarget(...order)),
      settleCovered: async (...order) => announced(await store.settleCovered(...order)),
    },
    messages,
    clock,
    random,
    hooks: {
      onRead({ account }, asked, changed) {
        metrics().hydration.asks.inc({ account }, asked);
        if (changed > 0) metrics().hydration.found.inc({ account }, changed);
      },
      onSettled: ({ account }, state, events) => metrics().hydration.settled.inc({ account, state }, events),
      finished({ account, covered }, tally, tookMs) {
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

  async function wakeOurs(): Promise<void> {
    for (const account of await store.waitingAccounts()) if (await isOurs(account)) hydrator.wake(account);
  }

  /** Looks for what other processes took in, and keeps the duties that this one has. */
  function lookLater(): void {
    if (isClosed) return;
    cancel = clock.after(lookEveryMs, () => {
      // While the store cannot be asked there is nothing to be done, and it says so itself.
      wakeOurs().then(lookLater, lookLater);
    });
  }

  return {
    async start(): Promise<void> {
      if (!scheduled) return;
      if (store.isShared) lookLater();
      else await hydrator.start();
    },
    /** An event was stored. */
    stored({ account, envelope, subject }: ReceivedEvent): void {
      if (!isTruncated(envelope) || subject.type !== "none") return;
      if (envelope.event.startsWith("message.") && services.client(account) !== null) {
        if (scheduled && !store.isShared) hydrator.wake(account);
      } else metrics().hydration.settled.inc({ account, state: "given-up" });
    },
    reload: (next: Settings): void => hydrator.reload(next.hydrate),
    /** To be called before the clients are closed, and resolved before the store is. */
    close(): Promise<void> {
      isClosed = true;
      cancel();
      return hydrator.close();
    },
  };
}

function answerOf({ failure }: ServiceError): ReadAnswer {
  if (failure.kind === "validation") return { type: "refused" };
  return { type: "later", until: failure.kind === "quota" ? failure.until : null };
}
