import type { Settings } from "../config/schema.ts";
import { accountsOf } from "../config/sources.ts";
import { type Alarm, type AlarmName, alarmKey, type StoredAlarm } from "../model/alarm.ts";
import { type ConditionName, conditionOf, conditions } from "../model/attention.ts";
import type { Clock } from "../model/clock.ts";
import { isTruncated } from "../model/envelope.ts";
import type { ReceivedEvent } from "../model/event.ts";
import { alertBody, postAlert } from "../observe/health.ts";
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
  readonly store: Pick<Store, "isShared" | "holdLease" | "read" | "noteObservations" | "observations" | "alarms" | "keepAlarm">;
  readonly settings: () => Settings;
  readonly services: Pick<ServiceAccounts, "limiters">;
  readonly clock: Clock;
  readonly supervise: Supervisor["supervise"];
  readonly log: Logger;
  readonly metrics: Metrics;
}

/** What needs action now. */
type Diagnose = () => Promise<Pick<Diagnosis, "attention">>;

export type Watching = ReturnType<typeof createWatching>;

const lookEveryMs = 15_000;
const leaseMs = 45_000;
/** An alarm is over once its condition has ended for this long: a destination may answer now and then. */
const overAfterMs = 60_000;

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
  const holding = createNoticing(now);
  /** What this process sees of accounts, by key: `silence`, `key` and `polls`. */
  const raised = new Map<string, Alarm>();
  /** Accounts whose key alarm an earlier process raised: here no call has shown yet whether it still holds. */
  const inherited = new Set<string>();
  /** Returns whether that is new. */
  const raise = (alarm: Alarm): boolean => {
    const key = alarmKey(alarm);
    const isNew = !raised.has(key);
    if (isNew) raised.set(key, alarm);
    return isNew;
  };
  const lower = (name: AlarmName): boolean => raised.delete(alarmKey(name));
  const wakeIf = (isNew: boolean): void => {
    if (isNew) for (const task of tasks) task.wake();
  };

  const watch = createSilenceWatch({
    now,
    after: windowMs,
    quotaUsedUp: (account) => services.limiters().get(account)?.stops.quota != null,
    began: (silence) => void raise({ alarm: "silence", account: silence.account, route: null, since: silence.since, ...textOf(silence) }),
    ended: ({ account }) => void lower({ alarm: "silence", account, route: null }),
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
    for (const [account, polls] of lastPolls) if (Object.hasOwn(settings().accounts, account)) setPollAlarm(account, polls);
    lookForSilence();
    // The first call only refreshes what a new leader knows of keys.
    if (isNew) services.limiters();
    else lookAtKeys();
    await changes.become(await conditionsInForce(diagnose));
    return lookEveryMs;
  }

  /** Of a process with a store of its own. */
  async function lookAlone(diagnose: Diagnose): Promise<number> {
    lookForSilence();
    lookAtKeys();
    await changes.become(await conditionsInForce(diagnose));
    return lookEveryMs;
  }

  /** Continues with the alarms that the leader before stored. */
  async function takeOver(): Promise<void> {
    const accounts = settings().accounts;
    const stored = (await changes.load()).filter(({ account }) => account !== null && Object.hasOwn(accounts, account));
    raised.clear();
    for (const alarm of stored) if (!(alarm.alarm in conditions)) raise(alarm);
    watch.adopt(stored.flatMap((alarm) => (alarm.alarm === "silence" ? [alarm] : [])));
    if (!store.isShared) for (const alarm of stored) if (alarm.alarm === "key") inherited.add(alarm.account);
  }

  /** What needs action is an alarm once it lasts, unless an alarm of the account stands for it. */
  async function conditionsInForce(diagnose: Diagnose): Promise<ReadonlyMap<string, Alarm>> {
    const { attention } = await diagnose();
    const before = new Map(changes.inForce().map((alarm) => [alarmKey(alarm), alarm]));
    const alarms = new Map(raised);
    holding.look((noticed) => {
      const current = new Set<string>();
      for (const entry of attention) {
        const name = conditionOf(entry);
        const { about, after } = conditions[name];
        const [account, route] = [about === "account" ? entry.subject : null, about === "route" ? entry.subject : null];
        const key = alarmKey({ alarm: name, account, route });
        current.add(key);
        const older = olderNames[name];
        const olderKey = older === undefined ? "" : alarmKey({ alarm: older, account, route: null });
        // Also the one that ends now: the diagnosis still has it.
        const stands = raised.has(olderKey) || before.has(olderKey);
        const lasts = !stands && now() - noticed(key) >= after * 1000;
        const alarm = before.get(key) ?? (lasts ? { alarm: name, account, route, since: entry.since, text: entry.text, causes: [] } : null);
        if (alarm !== null) alarms.set(key, alarm);
      }
      for (const [key, alarm] of before)
        if (alarm.alarm in conditions && !current.has(key) && now() - noticed(`no ${key}`) < overAfterMs) alarms.set(key, alarm);
    });
    return alarms;
  }

  function lookForSilence(): void {
    watch.look();
    const silent = watch.alarms().map(({ account }) => account);
    for (const account of Object.keys(settings().accounts)) {
      metrics.reconcile.silence.set({ account }, silent.includes(account) ? 1 : 0);
    }
  }

  function lookAtKeys(): void {
    for (const [account, { stops }] of services.limiters()) {
      if (stops.unauthenticated !== null) raiseKey(account);
      else if (!inherited.has(account)) lower({ alarm: "key", account, route: null });
    }
  }

  function raiseKey(account: string): boolean {
    if (!isLeader) return false;
    const text = "the service refuses the API key: missing, misspelled or revoked";
    inherited.delete(account);
    return raise({ alarm: "key", account, route: null, since: now(), text, causes: [] });
  }

  function setPollAlarm(account: string, text: PollNews): boolean {
    if (text === null) return lower({ alarm: "polls", account, route: null });
    return raise({ alarm: "polls", account, route: null, since: now(), text, causes: [] });
  }

  return {
    async start(diagnose: Diagnose): Promise<void> {
      if (observations !== null) {
        tasks.push(supervise({ name: "watching over webhooks", firstMs: lookEveryMs, run: () => lookTogether(observations, diagnose) }));
        return;
      }
      await takeOver();
      tasks.push(supervise({ name: "watching over webhooks", firstMs: 0, run: () => lookAlone(diagnose) }));
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
    keyRefused: (account: string): void => wakeIf(raiseKey(account)),
    /** A call shows that the service accepts the key. */
    keyWorked: (account: string): void => void inherited.delete(account),
    /** The last poll of an account found a message (null), or showed a fault of all its polls. */
    polled(account: string, fault: PollFault | null): void {
      metrics.reconcile.faulty.set({ account }, fault === null ? 0 : 1);
      const text = fault === null ? null : `${faultTexts[fault.reason]} (${fault.detail})`;
      if (observations === null) wakeIf(setPollAlarm(account, text));
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

export function inForce(stored: Iterable<StoredAlarm>): readonly Alarm[] {
  return [...stored].flatMap(({ state, alarm }) => (state === "began" ? [alarm] : []));
}

interface ChangesParts extends Pick<WatchingParts, "settings" | "log"> {
  readonly store: Pick<Store, "isShared" | "alarms" | "keepAlarm">;
  readonly now: () => number;
}

/**
 * The alarms as they are stored. A change is stored, reported by a line in the log and one post to `silence.alertUrl`, and
 * marked as reported. The next leader reports what is not marked.
 */
function createAlarmChanges({ store, settings, now, log }: ChangesParts) {
  const stored = new Map<string, StoredAlarm>();
  /** Reported here, while the mark may not be stored yet. */
  const reported = new WeakSet<StoredAlarm>();

  async function keep(change: StoredAlarm, next: StoredAlarm | null): Promise<void> {
    const key = alarmKey(change.alarm);
    try {
      await store.keepAlarm(change.alarm, next);
    } catch (error) {
      // A store of its own may be what the alarm is about.
      if (store.isShared) throw error;
    }
    if (next === null) stored.delete(key);
    else stored.set(key, next);
  }

  async function post(change: StoredAlarm): Promise<void> {
    const { alertUrl } = settings().silence;
    if (alertUrl === undefined) return;
    const { alarm, account, route } = change.alarm;
    await postAlert(alertUrl.reveal(), alertBody(change, now())).catch((error: unknown) => {
      log.warn({ err: error, alarm, account, route }, "the alarm could not be posted to silence.alertUrl");
    });
  }

  async function report(change: StoredAlarm): Promise<void> {
    const { state, alarm } = change;
    const { account, route, causes } = alarm;
    if (!reported.has(change)) {
      if (state === "began") log.error({ alarm: alarm.alarm, account, route, causes }, alarm.text);
      else log.info({ alarm: alarm.alarm, account, route, tookMs: now() - alarm.since }, `over: ${alarm.text}`);
      await post(change);
      reported.add(change);
    }
    await keep(change, state === "ended" ? null : { ...change, isReported: true });
  }

  async function make(change: StoredAlarm): Promise<void> {
    await keep(change, change);
    await report(change);
  }

  return {
    /** Reads the alarms of the leader before. Returns those in force. */
    async load(): Promise<readonly Alarm[]> {
      const read = await store.alarms();
      stored.clear();
      for (const each of read) stored.set(alarmKey(each.alarm), each);
      return inForce(read);
    },
    inForce: () => inForce(stored.values()),
    /** Makes `alarms`, by key, those in force. */
    async become(alarms: ReadonlyMap<string, Alarm>): Promise<void> {
      await Promise.all([...stored.values()].filter(({ isReported }) => !isReported).map(report));
      const ended = inForce(stored.values()).filter((alarm) => !alarms.has(alarmKey(alarm)));
      const began = [...alarms].filter(([key]) => !stored.has(key)).map(([, alarm]) => alarm);
      await Promise.all([
        ...ended.map((alarm) => make({ state: "ended", alarm, isReported: false })),
        ...began.map((alarm) => make({ state: "began", alarm, isReported: false })),
      ]);
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
