import type { Settings } from "../config/schema.ts";
import type { AlarmChange } from "../model/alarm.ts";
import { alertBody, postAlert } from "../observe/health.ts";
import type { Logger } from "../observe/logger.ts";
import type { Store } from "../store/port.ts";

export interface TellingParts {
  readonly store: Pick<Store, "alarmTold">;
  readonly settings: () => Settings;
  readonly now: () => number;
  readonly log: Logger;
}

/** Tells of changes of alarms: a line in the log, and one post to `silence.alertUrl`. */
export function createTelling({ store, settings, now, log }: TellingParts) {
  const telling = new Set<Promise<void>>();
  /** The store still has them as not told of. */
  const told = new Set<AlarmChange>();

  async function post(change: AlarmChange): Promise<void> {
    const { alertUrl } = settings().silence;
    if (alertUrl === undefined) return;
    const { alarm, account } = change.alarm;
    await postAlert(alertUrl.reveal(), alertBody(change, now())).catch((error: unknown) => {
      log.warn({ err: error, alarm, account }, "the alarm could not be posted to silence.alertUrl");
    });
  }

  /** Until the store knows what was told, somebody else would tell it again. */
  async function settle(): Promise<void> {
    for (const change of told) {
      await store.alarmTold(change);
      told.delete(change);
    }
  }

  return {
    tell(change: AlarmChange): void {
      const { state, alarm } = change;
      const { account, causes } = alarm;
      if (state === "began") log.error({ alarm: alarm.alarm, account, causes }, alarm.text);
      else log.info({ alarm: alarm.alarm, account, tookMs: now() - alarm.since }, `over: ${alarm.text}`);
      const done = post(change)
        .then(() => {
          told.add(change);
          return settle();
        })
        // The next look tries again.
        .catch(() => {});
      telling.add(done);
      void done.then(() => telling.delete(done));
    },
    settle,
    /** Resolves once all posts were made. */
    async close(): Promise<void> {
      await Promise.all(telling);
    },
  };
}
