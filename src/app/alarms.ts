import { createNoticing } from "../inspect/attention.ts";
import { type Alarm, alarmKey, type ConditionName, conditionOf, conditions, type StoredAlarm } from "../model/attention.ts";
import type { Attention } from "../model/overview.ts";
import { alertBody, postAlert } from "../observe/health.ts";
import type { Background } from "./store.ts";

/** An alarm is over once its condition has ended for this long: a destination may answer now and then. */
const overAfterMs = 60_000;

type Alarms = ReadonlyMap<string, Alarm>;

const olderNames: Partial<Record<ConditionName, "silence" | "key" | "polls">> = {
  "no-webhooks": "silence",
  "account-stopped": "key",
  "reconcile-failing": "polls",
};

/** The alarms that should be in force: those of accounts, and what else needs action once it lasts. `before`: those in force. */
export function createLastingConditions(now: () => number) {
  const noticing = createNoticing(now);

  return (attention: readonly Attention[], ofAccounts: Alarms, before: Alarms): Alarms => {
    const alarms = new Map(ofAccounts);
    noticing((noticed) => {
      const current = new Set<string>();
      for (const entry of attention) {
        const name = conditionOf(entry);
        const { about, after } = conditions[name];
        const [account, route] = [about === "account" ? entry.subject : null, about === "route" ? entry.subject : null];
        const key = alarmKey({ alarm: name, account, route });
        const older = olderNames[name];
        const olderKey = older === undefined ? "" : alarmKey({ alarm: older, account, route: null });
        // An alarm of the account stands for it. The diagnosis still has the one that ends now.
        if (ofAccounts.has(olderKey) || before.has(olderKey)) continue;
        current.add(key);
        const known = before.get(key);
        if (known !== undefined) alarms.set(key, known);
        else if (now() - noticed(key) >= after * 1000)
          alarms.set(key, { alarm: name, account, route, since: entry.since, text: entry.text, causes: [] });
      }
      for (const [key, alarm] of before)
        if (alarm.alarm in conditions && !current.has(key) && now() - noticed(`no ${key}`) < overAfterMs) alarms.set(key, alarm);
    });
    return alarms;
  };
}

export function inForce(stored: Iterable<StoredAlarm>): readonly Alarm[] {
  return [...stored].flatMap(({ state, alarm }) => (state === "began" ? [alarm] : []));
}

export const byKey = (alarms: readonly Alarm[]): Alarms => new Map(alarms.map((alarm) => [alarmKey(alarm), alarm]));

/**
 * The alarms as they are stored. A change is stored, reported by a line in the log and one post to `silence.alertUrl`, and
 * marked as reported. The next leader reports what is not marked.
 */
export function createAlarmChanges({ store, settings, clock: { now }, log }: Pick<Background, "store" | "settings" | "clock" | "log">) {
  let stored: Map<string, StoredAlarm> | null = null;
  /** Reported here, while the mark may not be stored yet. */
  const reported = new Set<string>();

  /** The leader before may have changed them. A store of its own may be what an alarm is about, so what is here counts. */
  async function load(): Promise<Map<string, StoredAlarm>> {
    if (stored === null || store.isShared) stored = new Map((await store.alarms()).map((each) => [alarmKey(each.alarm), each]));
    return stored;
  }

  async function keep(change: StoredAlarm, next: StoredAlarm | null): Promise<void> {
    const key = alarmKey(change.alarm);
    try {
      await store.keepAlarm(change.alarm, next);
    } catch (error) {
      if (store.isShared) throw error;
    }
    if (next === null) stored?.delete(key);
    else stored?.set(key, next);
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
    const { account, route, causes, since, text } = alarm;
    const named = `${state} ${since} ${alarmKey(alarm)}`;
    if (!reported.has(named)) {
      if (state === "began") log.error({ alarm: alarm.alarm, account, route, causes }, text);
      else log.info({ alarm: alarm.alarm, account, route, tookMs: now() - since }, `over: ${text}`);
      await post(change);
      reported.add(named);
    }
    await keep(change, state === "ended" ? null : { ...change, isReported: true });
    reported.delete(named);
  }

  async function make(state: StoredAlarm["state"], alarm: Alarm): Promise<void> {
    const change = { state, alarm, isReported: false };
    await keep(change, change);
    await report(change);
  }

  return {
    inForce: () => inForce(stored?.values() ?? []),
    load: async (): Promise<Alarms> => byKey(inForce((await load()).values())),
    async become(alarms: Alarms): Promise<void> {
      const known = await load();
      await Promise.all([...known.values()].filter(({ isReported }) => !isReported).map(report));
      const ended = inForce(known.values()).filter((alarm) => !alarms.has(alarmKey(alarm)));
      const began = [...alarms].filter(([key]) => !known.has(key));
      await Promise.all([...ended.map((alarm) => make("ended", alarm)), ...began.map(([, alarm]) => make("began", alarm))]);
    },
  };
}
