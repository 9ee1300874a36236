import { type PassParts, type PassTally, runHydrationPass } from "../hydrate/pass.ts";
import { pause } from "../model/clock.ts";
import type { ReceivedEvent } from "../model/event.ts";
import type { HydrationPass } from "../model/hydration.ts";
import { isSentByWebhook } from "../model/statuses.ts";
import { unobserved } from "../model/tracking.ts";
import type { ServiceAccounts } from "../service/accounts.ts";
import type { Polling } from "../service/polling.ts";
import type { StatusIntake } from "./accept.ts";
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

/**
 * Reads through the API what truncated events may have reported. Makes one pass at a time per
 * account over all waiting events. Later events wait for the next pass, so that a burst costs one
 * or two passes.
 */
export function createHydrating(parts: HydratingParts) {
  const {
    run,
    settings,
    store,
    services,
    clock,
    supervise,
    log,
    metrics,
    tracing,
    intake,
    polling,
    mayPoll,
  } = parts;
  const tasks = new Map<string, Supervised>();
  let task: Supervised | undefined;
  let isClosed = false;

  /** One process reads for an account, while events of it wait. */
  const isOurs = (account: string) => store.holdLease(`hydrate ${account}`, leaseMs);

  const passParts: PassParts = {
    settings: () => settings().hydrate,
    store: {
      ...store,
      async settleCovered(...order) {
        const settled = await store.settleCovered(...order);
        store.announce(settled.due);
        return settled;
      },
    },
    messages: {
      async poll(account, messageId, signal) {
        // As if the service could not be called: passes wait, and end when their time is up.
        if (services.client(account) !== null && !(await mayPoll(account)))
          return { type: "held", reason: "quota", until: null };
        return polling.poll(account, messageId, signal);
      },
      async submit({ account, source, because }, messageId, { wamid, status, errorCode }) {
        if (!isSentByWebhook(status)) return false;
        const state = (await store.messageState(account, wamid)) ?? unobserved;
        return intake(state, {
          account,
          source,
          because,
          origin: "hydrate",
          messageId,
          wamid,
          status,
          errorCode,
        });
      },
    },
    clock,
    random: run.random,
    onRead({ account }, polled, changed) {
      metrics.hydration.polls.inc({ account }, polled);
      if (changed > 0) metrics.hydration.found.inc({ account }, changed);
    },
    onSettled: ({ account }, state, events) =>
      metrics.hydration.settled.inc({ account, state }, events),
  };

  async function hydrate(account: string, signal: AbortSignal): Promise<number | null> {
    const since = await store.waitingSince(account);
    if (since === null) return null;
    const waitMs = since + settings().hydrate.delay - clock.now();
    if (waitMs > 0) await pause(clock, waitMs, signal).catch(() => {});
    if (signal.aborted || !(await isOurs(account))) return null;
    const startedAt = clock.now();
    const pass = await store.beginPass(account, startedAt);
    if (pass === null) return null;
    const tally = await runHydrationPass(pass, passParts, signal);
    if (tally !== null) finished(pass, tally, clock.now() - startedAt);
    return 0;
  }

  function finished(pass: HydrationPass, tally: PassTally, tookMs: number): void {
    const { account, covered } = pass;
    tracing?.hydrated(pass, tally, tookMs);
    metrics.hydration.passes.inc({ account });
    const { events, gaveUp, ...counts } = tally;
    const line = { account, truncated: Math.max(events, covered.events), ...counts, tookMs };
    if (gaveUp === null)
      log.info(line, "truncated events: the messages that could be meant are read");
    else
      log.warn(
        { ...line, reason: gaveUp },
        "truncated events: not all messages that could be meant could be read",
      );
  }

  function wake(account: string): void {
    if (isClosed) return;
    const known = tasks.get(account);
    if (known !== undefined) known.wake();
    else
      tasks.set(
        account,
        supervise({
          name: `hydration for account ${account}`,
          firstMs: 0,
          run: (signal) => hydrate(account, signal),
        }),
      );
  }

  /**
   * Resumes what waited when the relay was stopped. On a shared store, finds what other processes
   * accepted, too.
   */
  async function wakeOurs(): Promise<number | null> {
    for (const account of await store.waitingAccounts()) if (await isOurs(account)) wake(account);
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
        if (run.works && !store.isShared) wake(account);
      } else metrics.hydration.settled.inc({ account, state: "given-up" });
    },
    /** To be called before the clients are closed, and resolved before the store is. */
    async close(): Promise<void> {
      isClosed = true;
      await Promise.all([task, ...tasks.values()].map((each) => each?.close()));
    },
  };
}
