import type { Settings } from "../config/schema.ts";
import type { Clock } from "../event/clock.ts";
import { isTruncated } from "../event/envelope.ts";
import type { ReceivedEvent } from "../event/received.ts";
import { type AlarmChange, alertBody, createAlarms } from "../observe/alarms.ts";
import type { Logger } from "../observe/logger.ts";
import type { Metrics } from "../observe/metrics.ts";
import { postAlert } from "../observe/post-alert.ts";
import { causeTexts } from "../reconcile/silence.ts";
import { createSilenceWatch, type SilenceAlarm } from "../reconcile/silence-watch.ts";
import type { ServiceAccounts } from "./service-accounts.ts";

export interface WatchingParts {
  readonly settings: () => Settings;
  readonly services: Pick<ServiceAccounts, "limiters">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: () => Metrics;
}

const lookEveryMs = 15_000;

/** Alarms about what nobody would notice otherwise: webhooks that do not come, and a key that is refused. */
export function createWatching({ settings, services, clock, log, metrics }: WatchingParts) {
  const { now } = clock;
  const posting = new Set<Promise<void>>();
  let cancel = (): void => {};

  const alarms = createAlarms((change) => {
    const { state, alarm } = change;
    const { account, causes } = alarm;
    if (state === "began") log.error({ alarm: alarm.alarm, account, causes }, alarm.text);
    else log.info({ alarm: alarm.alarm, account, tookMs: now() - alarm.since }, `over: ${alarm.text}`);
    post(change);
  });

  function post(change: AlarmChange): void {
    const { alertUrl } = settings().silence;
    if (alertUrl === undefined) return;
    const posted = postAlert(alertUrl.reveal(), alertBody(change, now())).catch((error: unknown) => {
      log.warn(
        { err: error, alarm: change.alarm.alarm, account: change.alarm.account },
        "the alarm could not be posted to silence.alertUrl",
      );
    });
    posting.add(posted);
    void posted.then(() => posting.delete(posted));
  }

  const watch = createSilenceWatch({
    now,
    after: () => settings().silence.after,
    quotaUsedUp: (account) => services.limiters().get(account)?.stops.quota != null,
    began: (silence) => alarms.began({ alarm: "silence", account: silence.account, since: silence.since, ...textOf(silence) }),
    ended: ({ account }) => alarms.ended("silence", account),
    missed: (account) => metrics().reconcile.missed.inc({ account }),
  });

  function look(): void {
    watch.look();
    const silent = watch.alarms().map(({ account }) => account);
    for (const account of Object.keys(settings().accounts)) {
      metrics().reconcile.silence.set({ account }, silent.includes(account) ? 1 : 0);
    }
    for (const [account, { stops }] of services.limiters()) {
      if (stops.unauthenticated === null) alarms.ended("key", account);
      else keyRefused(account);
    }
  }

  function keyRefused(account: string): void {
    const text = "the service refuses the API key: missing, misspelled or revoked";
    alarms.began({ alarm: "key", account, since: now(), text, causes: [] });
  }

  function wait(): void {
    cancel = clock.after(lookEveryMs, () => {
      look();
      wait();
    });
  }

  return {
    start: wait,
    arrived({ account, origin, subject, envelope }: ReceivedEvent): void {
      if (origin !== "webhook") return;
      if (subject.type === "message") watch.arrived(account, subject.wamid, subject.status);
      else watch.arrived(account, null, null);
      if (isTruncated(envelope) && envelope.event.startsWith("message.")) watch.truncated(account);
    },
    learned: watch.learned,
    /** `sentAt`: unix ms; of a message sent long ago no event is to come any more. */
    registered(account: string, sentAt: number | undefined): void {
      if (sentAt === undefined || now() - sentAt < settings().silence.after) watch.registered(account, 1);
    },
    /** A bad signature at a source. */
    refused(source: string): void {
      const account = settings().sources[source]?.account;
      if (account !== undefined) watch.refused(account);
    },
    keyRefused,
    alarms: alarms.list,
    async close(): Promise<void> {
      cancel();
      await Promise.all(posting);
    },
  };
}

export type Watching = ReturnType<typeof createWatching>;

function textOf({ kind, causes }: SilenceAlarm): { text: string; causes: readonly string[] } {
  const what =
    kind === "nothing" ? "no webhook has come although messages were sent" : "asking tells of statuses that webhooks should have brought";
  return { text: what, causes: causes.map((cause) => causeTexts[cause]) };
}
