import type { Settings } from "../config/schema.ts";
import { createNoticing } from "../inspect/attention.ts";
import { type Alarm, alarmKey, type StoredAlarm } from "../model/alarm.ts";
import { type ConditionName, conditionOf, conditions } from "../model/attention.ts";
import type { Attention } from "../model/overview.ts";
import { alertBody, postAlert } from "../observe/health.ts";
import type { Logger } from "../observe/logger.ts";
import type { Store } from "../store/create-store.ts";
import type { PollNews } from "../store/port.ts";

/** An alarm is over once its condition has ended for this long: a destination may answer now and then. */
const overAfterMs = 60_000;

type AccountAlarm = Extract<Alarm, { readonly route: null; readonly account: string }>;

/** What this process sees of accounts. Each call that changes an alarm returns whether the change is new. */
export function createRaisedAlarms(now: () => number) {
  const all = new Map<string, Alarm>();
  /** Accounts whose key alarm an earlier process raised: here no call has shown yet whether it still holds. */
  const inherited = new Set<string>();

  function raise(alarm: Omit<AccountAlarm, "route">): boolean {
    const raised = { ...alarm, route: null };
    const isNew = !all.has(alarmKey(raised));
    if (isNew) all.set(alarmKey(raised), raised);
    return isNew;
  }
  const lower = (alarm: AccountAlarm["alarm"], account: string): boolean => all.delete(alarmKey({ alarm, account, route: null }));

  return {
    /** By key. */
    all: all as ReadonlyMap<string, Alarm>,
    raise,
    lower,
    /** Continues with stored alarms. `areKeysUnknown`: no process knows yet whether the keys still are refused. */
    adopt(stored: readonly Alarm[], areKeysUnknown: boolean): void {
      all.clear();
      for (const alarm of stored) if (!(alarm.alarm in conditions)) all.set(alarmKey(alarm), alarm);
      if (areKeysUnknown) for (const { alarm, account } of stored) if (alarm === "key") inherited.add(account);
    },
    setKey(account: string, isRefused: boolean): boolean {
      if (!isRefused) return !inherited.has(account) && lower("key", account);
      inherited.delete(account);
      const text = "the service refuses the API key: missing, misspelled or revoked";
      return raise({ alarm: "key", account, since: now(), text, causes: [] });
    },
    keyWorked: (account: string): void => void inherited.delete(account),
    setPolls(account: string, text: PollNews): boolean {
      return text === null ? lower("polls", account) : raise({ alarm: "polls", account, since: now(), text, causes: [] });
    },
  };
}

/** What needs action is an alarm once it lasts, unless an alarm of the account stands for it. */
export function createLastingConditions(now: () => number) {
  const holding = createNoticing(now);

  return (
    attention: readonly Attention[],
    raised: ReadonlyMap<string, Alarm>,
    inForceNow: readonly Alarm[],
  ): ReadonlyMap<string, Alarm> => {
    const before = new Map(inForceNow.map((alarm) => [alarmKey(alarm), alarm]));
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
  };
}

/** The names of alarms that are older than their conditions. */
const olderNames: Partial<Record<ConditionName, "silence" | "key" | "polls">> = {
  "no-webhooks": "silence",
  "account-stopped": "key",
  "reconcile-failing": "polls",
};

export function inForce(stored: Iterable<StoredAlarm>): readonly Alarm[] {
  return [...stored].flatMap(({ state, alarm }) => (state === "began" ? [alarm] : []));
}

interface ChangesParts {
  readonly settings: () => Pick<Settings, "silence">;
  readonly log: Logger;
  readonly store: Pick<Store, "isShared" | "alarms" | "keepAlarm">;
  readonly now: () => number;
}

/**
 * The alarms as they are stored. A change is stored, reported by a line in the log and one post to `silence.alertUrl`, and
 * marked as reported. The next leader reports what is not marked.
 */
export function createAlarmChanges({ store, settings, now, log }: ChangesParts) {
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
