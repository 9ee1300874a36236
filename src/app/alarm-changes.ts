import { type Alarms, byKey, inForce } from "../inspect/alarms.ts";
import { type Alarm, alarmKey, type StoredAlarm } from "../model/attention.ts";
import { alertBody, postAlert } from "../observe/health.ts";
import type { Background } from "./store.ts";

/**
 * The alarms as they are stored. A change is stored, reported by a line in the log and one post to
 * `silence.alertUrl`, and marked as reported. The next leader reports what is not marked.
 */
export function createAlarmChanges({
  store,
  settings,
  clock: { now },
  log,
}: Pick<Background, "store" | "settings" | "clock" | "log">) {
  let stored: Map<string, StoredAlarm> | null = null;
  /** Reported here, while the mark may not be stored yet. */
  const reported = new Set<string>();

  /**
   * The leader before may have changed them. A store of its own may be what an alarm is about, so
   * what is here counts.
   */
  async function load(): Promise<Map<string, StoredAlarm>> {
    if (stored === null || store.isShared)
      stored = new Map((await store.alarms()).map((each) => [alarmKey(each.alarm), each]));
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
      log.warn(
        { err: error, alarm, account, route },
        "the alarm could not be posted to silence.alertUrl",
      );
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
      await Promise.all([
        ...ended.map((alarm) => make("ended", alarm)),
        ...began.map(([, alarm]) => make("began", alarm)),
      ]);
    },
  };
}
