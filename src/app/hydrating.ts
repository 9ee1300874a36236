import { createHydrator, type HydratedStatus } from "../hydrate/pass.ts";
import type { ReceivedEvent } from "../model/event.ts";
import { isSentByWebhook } from "../model/statuses.ts";
import { unobserved } from "../model/tracking.ts";
import type { ServiceAccounts } from "../service/accounts.ts";
import type { Polling, StatusIntake } from "./polling.ts";
import type { Stored } from "./store.ts";
import type { Supervised } from "./supervise.ts";

interface HydratingParts extends Stored {
  readonly services: Pick<ServiceAccounts, "client">;
  readonly intake: StatusIntake;
  readonly polling: Polling;
  /** False while the rest of the month's calls is reserved for sends. */
  readonly mayPoll: (account: string) => Promise<boolean>;
}

/** On a shared store. */
const lookEveryMs = 1_000;
const leaseMs = 15_000;

export function createHydrating(parts: HydratingParts) {
  const { run, settings, store, services, clock, supervise, log, metrics, tracing, intake, polling, mayPoll } = parts;
  let task: Supervised | undefined;

  /** One process reads for an account, while events of it wait. */
  const isOurs = (account: string) => store.holdLease(`hydrate ${account}`, leaseMs);

  async function submit(found: HydratedStatus): Promise<boolean> {
    if (!isSentByWebhook(found.status)) return false;
    const state = (await store.messageState(found.account, found.wamid)) ?? unobserved;
    return intake(state, { ...found, origin: "hydrate" });
  }

  const hydrator = createHydrator({
    settings: () => settings().hydrate,
    store: {
      ...store,
      beginPass: async (account, now) => ((await isOurs(account)) ? store.beginPass(account, now) : null),
      async settleCovered(...order) {
        const settled = await store.settleCovered(...order);
        store.announce(settled.due);
        return settled;
      },
    },
    messages: {
      async poll(account, messageId, signal) {
        // As if the service could not be called: passes wait, and end when their time is up.
        if (services.client(account) !== null && !(await mayPoll(account))) return { type: "held", reason: "quota", until: null };
        return polling.poll(account, messageId, signal);
      },
      submit,
    },
    clock,
    random: run.random,
    supervise,
    onRead({ account }, polled, changed) {
      metrics.hydration.polls.inc({ account }, polled);
      if (changed > 0) metrics.hydration.found.inc({ account }, changed);
    },
    onSettled: ({ account }, state, events) => metrics.hydration.settled.inc({ account, state }, events),
    finished(pass, tally, tookMs) {
      const { account, covered } = pass;
      tracing?.hydrated(pass, tally, tookMs);
      metrics.hydration.passes.inc({ account });
      const { events, gaveUp, ...counts } = tally;
      const line = { account, truncated: Math.max(events, covered.events), ...counts, tookMs };
      if (gaveUp === null) log.info(line, "truncated events: the messages that could be meant are read");
      else log.warn({ ...line, reason: gaveUp }, "truncated events: not all messages that could be meant could be read");
    },
  });

  /** Resumes what waited when the relay was stopped. On a shared store, finds what other processes accepted, too. */
  async function wakeOurs(): Promise<number | null> {
    for (const account of await store.waitingAccounts()) if (await isOurs(account)) hydrator.wake(account);
    return store.isShared ? lookEveryMs : null;
  }

  return {
    start(): void {
      // Elsewhere, truncated events wait for a worker process.
      if (run.works) task = supervise({ name: "hydration", firstMs: 0, run: wakeOurs });
    },
    stored({ account, envelope, subject }: ReceivedEvent): void {
      if (subject.type !== "none") return;
      if (envelope.event.startsWith("message.") && services.client(account) !== null) {
        if (run.works && !store.isShared) hydrator.wake(account);
      } else metrics.hydration.settled.inc({ account, state: "given-up" });
    },
    /** To be called before the clients are closed, and resolved before the store is. */
    async close(): Promise<void> {
      await Promise.all([task?.close(), hydrator.close()]);
    },
  };
}
