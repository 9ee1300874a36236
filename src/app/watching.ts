import type { Settings } from "../config/schema.ts";
import { accountsOf } from "../config/sources.ts";
import { type AlarmChange, alarmKey } from "../model/alarm.ts";
import { type ConditionName, conditionOf, conditions } from "../model/attention.ts";
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
import { createNoticing } from "./attention.ts";
import type { Diagnosis } from "./diagnosis.ts";
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
  readonly diagnose: () => Promise<Pick<Diagnosis, "attention">>;
}

export type Watching = ReturnType<typeof createWatching>;

const lookEveryMs = 15_000;
const leaseMs = 45_000;
/** An alarm is over once its condition has ended for this long: a destination may answer now and then. */
const overAfterMs = 60_000;

/** The alarms: whatever needs action for long enough. Of processes that share a store, a leader raises them. */
export function createWatching({ store, settings, services, clock, supervise, log, metrics, diagnose }: WatchingParts) {
  const { now } = clock;
  const windowMs = () => settings().silence.after;
  const missed = (account: string) => metrics().reconcile.missed.inc({ account });
  /** Null: this process observes everything itself. */
  const observations = store.isShared ? createObservations({ store, clock, missed }) : null;
  let isLeader = !store.isShared;
  const tasks: Supervised[] = [];

  const reports = createAlarmReports({ store, settings, now, log });
  /** Changes that the store does not have yet. */
  let unstored: AlarmChange[] = [];
  const alarms = createAlarms((change) => {
    unstored.push(change);
    if (!store.isShared) void reportChanges();
  });
  const holding = createNoticing(now);
  /** Accounts whose key alarm an earlier process raised: here no call has shown yet whether it still holds. */
  const inherited = new Set<string>();

  const watch = createSilenceWatch({
    now,
    after: windowMs,
    quotaUsedUp: (account) => services.limiters().get(account)?.stops.quota != null,
    began: (silence) => alarms.began({ alarm: "silence", account: silence.account, route: null, since: silence.since, ...textOf(silence) }),
    ended: ({ account }) => alarms.ended({ alarm: "silence", account, route: null }),
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
    await lookAtConditions();
    await reportChanges();
    return lookEveryMs;
  }

  /** Of a process with a store of its own. */
  function startAlone(): void {
    const name = "watching over webhooks";
    const look = (): number => {
      lookForSilence();
      lookAtKeys();
      return lookEveryMs;
    };
    const lookFurther = async (): Promise<number> => {
      await lookAtConditions();
      await reports.settle();
      return lookEveryMs;
    };
    tasks.push(supervise({ name, firstMs: lookEveryMs, run: look }), supervise({ name: "the alarms", firstMs: 0, run: lookFurther }));
  }

  /** Stores each change, so that a process that ends leaves what is not reported yet to the next one. */
  async function reportChanges(): Promise<void> {
    for (let [change] = unstored; change !== undefined; [change] = unstored) {
      if (store.isShared) {
        const isOurs = await store.noteAlarm(change);
        unstored.shift();
        if (isOurs) reports.report(change);
      } else {
        unstored.shift();
        // Reported although it cannot be stored: this may be the alarm about that.
        await Promise.resolve(store.noteAlarm(change)).catch(() => {});
        reports.report(change);
      }
    }
  }

  /** Continues with the alarms that the leader before stored, and makes the reports that it did not make. */
  async function takeOver(): Promise<void> {
    const known = settings().accounts;
    const unreported = await store.untoldAlarms();
    const inForce = (await store.alarmsInForce()).filter(({ account }) => account === null || Object.hasOwn(known, account));
    // The beginning of an alarm before its end.
    for (const change of unreported.toSorted((a, b) => a.state.localeCompare(b.state))) reports.report(change);
    unstored = [];
    alarms.adopt(inForce);
    watch.adopt(inForce.flatMap((alarm) => (alarm.alarm === "silence" ? [alarm] : [])));
    if (!store.isShared) for (const alarm of inForce) if (alarm.alarm === "key") inherited.add(alarm.account);
  }

  /** What needs action becomes an alarm once it lasts, unless another alarm stands for it. */
  async function lookAtConditions(): Promise<void> {
    const { attention } = await diagnose();
    holding.look((noticed) => {
      const current = new Set<string>();
      for (const entry of attention) {
        const name = conditionOf(entry);
        const { about, after } = conditions[name];
        const [account, route] = [about === "account" ? entry.subject : null, about === "route" ? entry.subject : null];
        const key = alarmKey({ alarm: name, account, route });
        current.add(key);
        const older = olderNames[name];
        const stands = older !== undefined && account !== null && alarms.has({ alarm: older, account, route: null });
        if (stands || now() - noticed(key) < after * 1000) continue;
        alarms.began({ alarm: name, account, route, since: entry.since, text: entry.text, causes: [] });
      }
      for (const alarm of alarms.list()) {
        const key = alarmKey(alarm);
        if (alarm.alarm in conditions && !current.has(key) && now() - noticed(`no ${key}`) >= overAfterMs) alarms.ended(alarm);
      }
    });
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
      if (stops.unauthenticated !== null) keyRefused(account);
      else if (!inherited.has(account)) alarms.ended({ alarm: "key", account, route: null });
    }
  }

  function keyRefused(account: string): void {
    if (!isLeader) return;
    const text = "the service refuses the API key: missing, misspelled or revoked";
    inherited.delete(account);
    alarms.began({ alarm: "key", account, route: null, since: now(), text, causes: [] });
  }

  function setPollAlarm(account: string, text: PollNews): void {
    if (text === null) alarms.ended({ alarm: "polls", account, route: null });
    else alarms.began({ alarm: "polls", account, route: null, since: now(), text, causes: [] });
  }

  return {
    async start(): Promise<void> {
      if (observations !== null) {
        tasks.push(supervise({ name: "watching over webhooks", firstMs: lookEveryMs, run: () => lookTogether(observations) }));
        return;
      }
      await takeOver();
      startAlone();
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
    keyRefused,
    /** A call shows that the service accepts the key. */
    keyWorked: (account: string): void => void inherited.delete(account),
    /** The last poll of an account found a message (null), or showed a fault of all its polls. */
    polled(account: string, fault: PollFault | null): void {
      metrics().reconcile.faulty.set({ account }, fault === null ? 0 : 1);
      const text = fault === null ? null : `${faultTexts[fault.reason]} (${fault.detail})`;
      if (observations === null) setPollAlarm(account, text);
      else observations.add(account, { polls: text });
    },
    alarms: () => (isLeader ? alarms.list() : []),
    async close(): Promise<void> {
      await Promise.all(tasks.map((task) => task.close()));
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
    const { alarm, account, route } = change.alarm;
    await postAlert(alertUrl.reveal(), alertBody(change, now())).catch((error: unknown) => {
      log.warn({ err: error, alarm, account, route }, "the alarm could not be posted to silence.alertUrl");
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
      const { account, route, causes } = alarm;
      if (state === "began") log.error({ alarm: alarm.alarm, account, route, causes }, alarm.text);
      else log.info({ alarm: alarm.alarm, account, route, tookMs: now() - alarm.since }, `over: ${alarm.text}`);
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

/** The names of alarms that are older than their conditions. */
const olderNames: Partial<Record<ConditionName, "silence" | "key" | "polls">> = {
  "no-webhooks": "silence",
  "account-stopped": "key",
  "reconcile-failing": "polls",
};

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
