import type { Settings } from "../config/schema.ts";
import type { AlarmChange } from "../model/alarm.ts";
import type { Clock } from "../model/clock.ts";
import { isTruncated } from "../model/envelope.ts";
import type { ReceivedEvent } from "../model/event.ts";
import { alertBody, createAlarms, postAlert } from "../observe/health.ts";
import type { Logger } from "../observe/logger.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { PollFault } from "../reconcile/port.ts";
import { causeTexts, createSilenceWatch, type SilenceAlarm } from "../reconcile/silence.ts";
import type { ServiceAccounts } from "../service/accounts.ts";
import type { PollNews, Store } from "../store/port.ts";
import { createObservations } from "./observations.ts";
import type { Supervised, Supervisor } from "./supervise.ts";

export interface WatchingParts {
  readonly store: Pick<
    Store,
    "isShared" | "holdLease" | "read" | "noteObservations" | "observations" | "alarmsInForce" | "noteAlarm" | "untoldAlarms" | "alarmTold"
  >;
  readonly settings: () => Settings;
  readonly services: Pick<ServiceAccounts, "limiters">;
  readonly clock: Clock;
  readonly supervise: Supervisor["supervise"];
  readonly log: Logger;
  readonly metrics: () => Metrics;
}

export type Watching = ReturnType<typeof createWatching>;

const lookEveryMs = 15_000;
const leaseMs = 45_000;

/** Alarms for missing webhooks, refused keys and unusable answers to polls. Of processes that share a store, a leader raises them. */
export function createWatching({ store, settings, services, clock, supervise, log, metrics }: WatchingParts) {
  const { now } = clock;
  const windowMs = () => settings().silence.after;
  const missed = (account: string) => metrics().reconcile.missed.inc({ account });
  /** Null: this process observes everything itself. */
  const observations = store.isShared ? createObservations({ store, clock, missed }) : null;
  let isLeader = !store.isShared;
  let task: Supervised | undefined;

  const reports = createAlarmReports({ store, settings, now, log });
  /** Changes that the store does not have yet. */
  let unstored: AlarmChange[] = [];
  const alarms = createAlarms((change) => {
    if (store.isShared) unstored.push(change);
    else reports.report(change);
  });

  const watch = createSilenceWatch({
    now,
    after: windowMs,
    quotaUsedUp: (account) => services.limiters().get(account)?.stops.quota != null,
    began: (silence) => alarms.began({ alarm: "silence", account: silence.account, since: silence.since, ...textOf(silence) }),
    ended: ({ account }) => alarms.ended("silence", account),
    missed,
  });

  /** Stores the observations of this process. The leader then judges those of all processes. */
  async function lookTogether(shared: NonNullable<typeof observations>): Promise<number> {
    await shared.flush();
    await reports.settle();
    if (!(await store.holdLease("alarms", leaseMs))) {
      isLeader = false;
      for (const account of Object.keys(settings().accounts)) metrics().reconcile.silence.set({ account }, 0);
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
    for (const [account, polls] of lastPolls) if (Object.hasOwn(settings().accounts, account)) setPollAlarm(account, polls);
    lookForSilence();
    // The first call only refreshes what a new leader knows of keys.
    if (isNew) services.limiters();
    else lookAtKeys();
    for (let [change] = unstored; change !== undefined; [change] = unstored) {
      const isOurs = await store.noteAlarm(change);
      unstored.shift();
      if (isOurs) reports.report(change);
    }
    return lookEveryMs;
  }

  /** Continues with the alarms that the leader before stored, and makes the reports that it did not make. */
  async function takeOver(): Promise<void> {
    const known = settings().accounts;
    const unreported = await store.untoldAlarms();
    const inForce = (await store.alarmsInForce()).filter(({ account }) => Object.hasOwn(known, account));
    // The beginning of an alarm before its end.
    for (const change of unreported.toSorted((a, b) => a.state.localeCompare(b.state))) reports.report(change);
    unstored = [];
    alarms.adopt(inForce);
    watch.adopt(inForce.filter(({ alarm }) => alarm === "silence"));
  }

  function lookForSilence(): void {
    watch.look();
    const silent = watch.alarms().map(({ account }) => account);
    for (const account of Object.keys(settings().accounts)) {
      metrics().reconcile.silence.set({ account }, silent.includes(account) ? 1 : 0);
    }
  }

  function lookAtKeys(): void {
    for (const [account, { stops }] of services.limiters()) {
      if (stops.unauthenticated === null) alarms.ended("key", account);
      else keyRefused(account);
    }
  }

  function keyRefused(account: string): void {
    if (!isLeader) return;
    const text = "the service refuses the API key: missing, misspelled or revoked";
    alarms.began({ alarm: "key", account, since: now(), text, causes: [] });
  }

  function setPollAlarm(account: string, text: PollNews): void {
    if (text === null) alarms.ended("polls", account);
    else alarms.began({ alarm: "polls", account, since: now(), text, causes: [] });
  }

  return {
    start(): void {
      task = supervise({
        name: "watching over webhooks",
        firstMs: lookEveryMs,
        run() {
          if (observations !== null) return lookTogether(observations);
          lookForSilence();
          lookAtKeys();
          return lookEveryMs;
        },
      });
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
      const account = settings().sources[source]?.account;
      if (account === undefined) return;
      if (observations === null) watch.refused(account);
      else observations.add(account, { refused: 1 });
    },
    keyRefused,
    /** The last poll of an account found a message (null), or showed a fault of all its polls. */
    polled(account: string, fault: PollFault | null): void {
      metrics().reconcile.faulty.set({ account }, fault === null ? 0 : 1);
      const text = fault === null ? null : `${faultTexts[fault.reason]} (${fault.detail})`;
      if (observations === null) setPollAlarm(account, text);
      else observations.add(account, { polls: text });
    },
    alarms: () => (isLeader ? alarms.list() : []),
    async close(): Promise<void> {
      await task?.close();
      // The other processes get the last observations.
      await observations?.flush().catch(() => {});
      await reports.close();
    },
  };
}

interface ReportParts extends Pick<WatchingParts, "settings" | "log"> {
  readonly store: Pick<Store, "alarmTold">;
  readonly now: () => number;
}

/** Reports each change of an alarm: one line in the log, and one post to `silence.alertUrl`. */
function createAlarmReports({ store, settings, now, log }: ReportParts) {
  const inFlight = new Set<Promise<void>>();
  /** Reported, and not yet marked so in the store. */
  const unmarked = new Set<AlarmChange>();

  async function post(change: AlarmChange): Promise<void> {
    const { alertUrl } = settings().silence;
    if (alertUrl === undefined) return;
    const { alarm, account } = change.alarm;
    await postAlert(alertUrl.reveal(), alertBody(change, now())).catch((error: unknown) => {
      log.warn({ err: error, alarm, account }, "the alarm could not be posted to silence.alertUrl");
    });
  }

  /** Without the mark, the next leader would report the change again. */
  async function settle(): Promise<void> {
    for (const change of unmarked) {
      await store.alarmTold(change);
      unmarked.delete(change);
    }
  }

  return {
    report(change: AlarmChange): void {
      const { state, alarm } = change;
      const { account, causes } = alarm;
      if (state === "began") log.error({ alarm: alarm.alarm, account, causes }, alarm.text);
      else log.info({ alarm: alarm.alarm, account, tookMs: now() - alarm.since }, `over: ${alarm.text}`);
      const done = post(change)
        .then(() => {
          unmarked.add(change);
          return settle();
        })
        // The next look tries again.
        .catch(() => {});
      inFlight.add(done);
      void done.then(() => inFlight.delete(done));
    },
    settle,
    /** Resolves once all posts were made. */
    async close(): Promise<void> {
      await Promise.all(inFlight);
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
