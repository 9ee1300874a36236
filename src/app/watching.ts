import type { Settings } from "../config/schema.ts";
import { accountsOf } from "../config/sources.ts";
import type { Diagnosis } from "../inspect/diagnosis.ts";
import type { Clock } from "../model/clock.ts";
import { isTruncated } from "../model/envelope.ts";
import type { ReceivedEvent } from "../model/event.ts";
import type { Logger } from "../observe/logger.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { PollFault } from "../reconcile/port.ts";
import { causeTexts, createSilenceWatch, type SilenceAlarm } from "../reconcile/silence.ts";
import type { ServiceAccounts } from "../service/accounts.ts";
import type { Store } from "../store/create-store.ts";
import type { AccountObservation, ObservationCounts, PollNews } from "../store/port.ts";
import { createAlarmChanges, createLastingConditions, createRaisedAlarms } from "./alarms.ts";
import type { Supervised, Supervisor } from "./supervise.ts";

interface WatchingParts {
  readonly store: Pick<Store, "isShared" | "holdLease" | "read" | "noteObservations" | "observations" | "alarms" | "keepAlarm">;
  readonly settings: () => Settings;
  readonly services: Pick<ServiceAccounts, "limiters">;
  readonly clock: Clock;
  readonly supervise: Supervisor["supervise"];
  readonly log: Logger;
  readonly metrics: Metrics;
}

type Diagnose = () => Promise<Pick<Diagnosis, "attention">>;

export type Watching = ReturnType<typeof createWatching>;

const lookEveryMs = 15_000;
const leaseMs = 45_000;
/** The alarms: whatever needs action for long enough. Of processes that share a store, a leader raises them. */
export function createWatching({ store, settings, services, clock, supervise, log, metrics }: WatchingParts) {
  const { now } = clock;
  const windowMs = () => settings().silence.after;
  const missed = (account: string) => metrics.reconcile.missed.inc({ account });
  /** Null: this process observes everything itself. */
  const observations = store.isShared ? createObservations({ store, clock, missed }) : null;
  let isLeader = !store.isShared;
  const tasks: Supervised[] = [];

  const changes = createAlarmChanges({ store, settings, now, log });
  const raised = createRaisedAlarms(now);
  const lasting = createLastingConditions(now);
  const wakeIf = (isNew: boolean): void => {
    if (isNew) for (const task of tasks) task.wake();
  };

  const watch = createSilenceWatch({
    now,
    after: windowMs,
    quotaUsedUp: (account) => services.limiters().get(account)?.stops.quota != null,
    began: (silence) => void raised.raise({ alarm: "silence", account: silence.account, since: silence.since, ...textOf(silence) }),
    ended: ({ account }) => void raised.lower("silence", account),
    missed,
  });

  /** Stores the observations of this process. The leader then judges those of all processes. */
  async function lookTogether(shared: NonNullable<typeof observations>, diagnose: Diagnose): Promise<number> {
    await shared.flush();
    if (!(await store.holdLease("alarms", leaseMs))) {
      isLeader = false;
      for (const account of Object.keys(settings().accounts)) metrics.reconcile.silence.set({ account }, 0);
      return lookEveryMs;
    }
    const isNew = !isLeader;
    if (isNew) await takeOver();
    isLeader = true;
    // Back to what a leader that died may have observed last, and to what ends one of its alarms.
    const from = Math.min(now() - 2 * windowMs(), ...watch.alarms().map(({ since }) => since));
    const lastPolls = new Map<string, PollNews>();
    for (const { account, at, polls, ...counts } of await shared.read(from)) {
      watch.took(account, at, counts);
      if (polls !== undefined) lastPolls.set(account, polls);
    }
    for (const [account, polls] of lastPolls) if (Object.hasOwn(settings().accounts, account)) raised.setPolls(account, polls);
    return settle(diagnose, isNew);
  }

  async function settle(diagnose: Diagnose, isNewLeader = false): Promise<number> {
    watch.look();
    const silent = watch.alarms().map(({ account }) => account);
    for (const account of Object.keys(settings().accounts)) {
      metrics.reconcile.silence.set({ account }, silent.includes(account) ? 1 : 0);
    }
    // The first call only refreshes what a new leader knows of keys.
    const limiters = services.limiters();
    if (!isNewLeader) for (const [account, { stops }] of limiters) raised.setKey(account, stops.unauthenticated !== null);
    await changes.become(lasting((await diagnose()).attention, raised.all, changes.inForce()));
    return lookEveryMs;
  }

  /** Continues with the alarms that the leader before stored. */
  async function takeOver(): Promise<void> {
    const accounts = settings().accounts;
    const stored = (await changes.load()).filter(({ account }) => account !== null && Object.hasOwn(accounts, account));
    raised.adopt(stored, !store.isShared);
    watch.adopt(stored.flatMap((alarm) => (alarm.alarm === "silence" ? [alarm] : [])));
  }

  return {
    async start(diagnose: Diagnose): Promise<void> {
      if (observations === null) await takeOver();
      const [firstMs, run] =
        observations === null ? [0, () => settle(diagnose)] : [lookEveryMs, () => lookTogether(observations, diagnose)];
      tasks.push(supervise({ name: "watching over webhooks", firstMs, run }));
    },
    arrived({ account, origin, subject, envelope }: ReceivedEvent): void {
      if (origin !== "webhook") return;
      const isSilent = isTruncated(envelope) && envelope.event.startsWith("message.");
      if (observations !== null) {
        observations.add(account, { events: 1, truncated: isSilent ? 1 : 0 });
        return;
      }
      if (subject.type === "message") watch.arrived(account, subject.wamid, subject.status);
      else watch.arrived(account, null, null);
      if (isSilent) watch.truncated(account);
    },
    /** A poll found a new status. */
    found: observations?.polled ?? watch.learned,
    /** `sentAt`: unix ms. No event is expected of a message that was sent long ago. */
    registered(account: string, sentAt: number | undefined): void {
      if (sentAt !== undefined && now() - sentAt >= windowMs()) return;
      if (observations === null) watch.registered(account, 1);
      else observations.add(account, { registered: 1 });
    },
    /** A bad signature at a source. */
    refused(source: string): void {
      const of = settings().sources[source];
      for (const account of of === undefined ? [] : accountsOf(of)) {
        if (observations === null) watch.refused(account);
        else observations.add(account, { refused: 1 });
      }
    },
    keyRefused: (account: string): void => wakeIf(isLeader && raised.setKey(account, true)),
    /** A call shows that the service accepts the key. */
    keyWorked: raised.keyWorked,
    /** The last poll of an account found a message (null), or showed a fault of all its polls. */
    polled(account: string, fault: PollFault | null): void {
      metrics.reconcile.faulty.set({ account }, fault === null ? 0 : 1);
      const text = fault === null ? null : `${faultTexts[fault.reason]} (${fault.detail})`;
      if (observations === null) wakeIf(raised.setPolls(account, text));
      else observations.add(account, { polls: text });
    },
    alarms: () => (isLeader ? changes.inForce() : []),
    async close(): Promise<void> {
      await Promise.all(tasks.map((task) => task.close()));
      // The other processes get the last observations.
      await observations?.flush().catch(() => {});
    },
  };
}

const faultTexts: Record<PollFault["reason"], string> = {
  "not-found":
    "the service answers 404 to every poll, and no message is marked as missing for it: are baseUrl and apiKey of this account, and the registered ids of this service?",
  refused: "the service refuses every poll",
  unreadable: "the service's answers to polls cannot be read: is baseUrl right?",
};

function textOf({ kind, causes }: SilenceAlarm): { text: string; causes: readonly string[] } {
  const text =
    kind === "nothing" ? "no webhook has come although messages were sent" : "polls found statuses whose webhooks did not arrive";
  return { text, causes: causes.map((cause) => causeTexts[cause]) };
}

interface ObservationsParts {
  readonly store: Pick<Store, "read" | "noteObservations" | "observations">;
  readonly clock: Clock;
  /** A poll found a status, and its webhook did not arrive within the grace period. */
  readonly missed: (account: string) => void;
}

/** A webhook that arrives this long after the answer to a poll is late, not missing. */
const graceMs = 120_000;
/** Polled statuses that wait for their webhook; beyond that the oldest are dropped. */
const mostPending = 10_000;
/** Events of a message that are searched for one. */
const mostEvents = 100;

type Sums = { -readonly [name in keyof ObservationCounts]: ObservationCounts[name] } & { polls?: PollNews };

/**
 * What this process observed, collected for the leader: webhooks arrive at some processes and others poll the service, and
 * only together do they show whether something is missing.
 */
function createObservations({ store, clock, missed }: ObservationsParts) {
  const { now } = clock;
  let sums = new Map<string, Sums>();
  /** Statuses that polls found, in order of time. */
  const pending: { readonly account: string; readonly wamid: string; readonly status: string; readonly at: number }[] = [];
  let place: string | null = null;

  function add(account: string, { polls, ...counts }: Partial<Sums>): void {
    const sum = sums.get(account) ?? { events: 0, truncated: 0, refused: 0, registered: 0, missed: 0 };
    sums.set(account, sum);
    for (const [name, count] of Object.entries(counts) as [keyof ObservationCounts, number][]) sum[name] += count;
    if (polls !== undefined) sum.polls = polls;
  }

  /** Whether a webhook brought the status to any process. */
  async function hasArrived({ account, wamid, status }: (typeof pending)[number]): Promise<boolean> {
    const seqs = await store.read.stories.eventsOf("message", account, wamid, 0, mostEvents);
    const events = await Promise.all(seqs.map((seq) => store.read.events.get(seq)));
    return events.some((event) => event !== null && event.origin === "webhook" && event.status === status);
  }

  async function countMissed(): Promise<void> {
    for (let first = pending[0]; first !== undefined && now() - first.at >= graceMs; first = pending[0]) {
      const isLate = await hasArrived(first);
      pending.shift();
      if (isLate) continue;
      add(first.account, { missed: 1 });
      missed(first.account);
    }
  }

  return {
    add,
    polled(account: string, wamid: string, status: string): void {
      pending.push({ account, wamid, status, at: now() });
      if (pending.length > mostPending) pending.shift();
    },
    /** Stores what was collected; what cannot be stored now is kept for the next call. */
    async flush(): Promise<void> {
      await countMissed();
      if (sums.size === 0) return;
      const collected = sums;
      sums = new Map();
      try {
        await store.noteObservations([...collected].map(([account, counts]) => ({ account, at: now(), ...counts })));
      } catch (error) {
        const newer = sums;
        sums = collected;
        for (const [account, counts] of newer) add(account, counts);
        throw error;
      }
    },
    /** Those of all processes that this one has not read yet, at first from the time `from`. */
    async read(from: number): Promise<readonly AccountObservation[]> {
      const read = await store.observations(place, from);
      place = read.place;
      return read.observations;
    },
  };
}
