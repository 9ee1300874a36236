import {
  type Alarm,
  alarmKey,
  type ConditionName,
  conditionOf,
  conditions,
  type StoredAlarm,
} from "../model/attention.ts";
import type { Attention } from "../model/overview.ts";
import { createNoticing } from "./attention.ts";

export type Alarms = ReadonlyMap<string, Alarm>;

export const byKey = (alarms: readonly Alarm[]): Alarms =>
  new Map(alarms.map((alarm) => [alarmKey(alarm), alarm]));

export function inForce(stored: Iterable<StoredAlarm>): readonly Alarm[] {
  return [...stored].flatMap(({ state, alarm }) => (state === "began" ? [alarm] : []));
}

/**
 * An alarm is over once its condition has ended for this long: a destination may answer now and
 * then.
 */
const overAfterMs = 60_000;

const olderNames: Partial<Record<ConditionName, "silence" | "key" | "polls">> = {
  "no-webhooks": "silence",
  "account-stopped": "key",
  "reconcile-failing": "polls",
};

/**
 * The alarms that should be in force: those of accounts, and what else needs action once it lasts.
 * `before`: those in force.
 */
export function createLastingConditions(now: () => number) {
  const noticing = createNoticing(now);

  return (attention: readonly Attention[], ofAccounts: Alarms, before: Alarms): Alarms => {
    const alarms = new Map(ofAccounts);
    noticing((noticed) => {
      const current = new Set<string>();
      for (const entry of attention) {
        const name = conditionOf(entry);
        const { about, after } = conditions[name];
        const [account, route] = [
          about === "account" ? entry.subject : null,
          about === "route" ? entry.subject : null,
        ];
        const key = alarmKey({ alarm: name, account, route });
        const older = olderNames[name];
        const olderKey =
          older === undefined ? "" : alarmKey({ alarm: older, account, route: null });
        // An alarm of the account stands for it. The diagnosis still has the one that ends now.
        if (ofAccounts.has(olderKey) || before.has(olderKey)) continue;
        current.add(key);
        const known = before.get(key);
        if (known !== undefined) alarms.set(key, known);
        else if (now() - noticed(key) >= after * 1000)
          alarms.set(key, {
            alarm: name,
            account,
            route,
            since: entry.since,
            text: entry.text,
            causes: [],
          });
      }
      for (const [key, alarm] of before)
        if (
          alarm.alarm in conditions &&
          !current.has(key) &&
          now() - noticed(`no ${key}`) < overAfterMs
        )
          alarms.set(key, alarm);
    });
    return alarms;
  };
}
