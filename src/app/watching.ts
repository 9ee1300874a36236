import type { Settings } from "../config/schema.ts";
import type { AlarmChange } from "../model/alarm.ts";
import type { Clock } from "../model/clock.ts";
import { isTruncated } from "../model/envelope.ts";
import type { ReceivedEvent } from "../model/event.ts";
import { createAlarms } from "../observe/health.ts";
import type { Logger } from "../observe/logger.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { PollFault } from "../reconcile/port.ts";
import { causeTexts, createSilenceWatch, type SilenceAlarm } from "../reconcile/silence.ts";
import type { ServiceAccounts } from "../service/accounts.ts";
import { type PollNews, type Store, StoreUnavailable } from "../store/port.ts";
import { createSightings } from "./observations.ts";
import { createTelling } from "./telling-alarms.ts";

export interface WatchingParts {
  readonly store: Pick<
    Store,
    "isShared" | "duty" | "read" | "noteSightings" | "sightings" | "alarmsInForce" | "noteAlarm" | "untoldAlarms" | "alarmTold"
  >;
  readonly settings: () => Settings;
  readonly services: Pick<ServiceAccounts, "limiters">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: () => Metrics;
}

const lookEveryMs = 15_000;
const dutyMs = 45_000;

/** Alarms about what nobody would notice otherwise: webhooks that do not come, and a key that is refused. */
export function createWatching({ store, settings, services, clock, log, metrics }: WatchingParts) {
  const { now } = clock;
  const reach = () => settings().silence.after;
  const missed = (account: string) => metrics().reconcile.missed.inc({ account });
  /** Null: this process sees everything itself. */
  const sightings = store.isShared ? createSightings({ store, clock, missed }) : null;
  /** Of those that share a store one watches for all. */
  let isOnDuty = !store.isShared;
  let looking: Promise<void> = Promise.resolve();
  let isClosed = false;
  let cancel = (): void => {};

  const telling = createTelling({ store, settings, now, log });
  /** Changes that wait until the store knows of them. */
  let unnoted: AlarmChange[] = [];
  const alarms = createAlarms((change) => {
    if (store.isShared) unnoted.push(change);
    else telling.tell(change);
  });

  const watch = createSilenceWatch({
    now,
    after: reach,
    quotaUsedUp: (account) => services.limiters().get(account)?.stops.quota != null,
    began: (silence) => alarms.began({ alarm: "silence", account: silence.account, since: silence.since, ...textOf(silence) }),
    ended: ({ account }) => alarms.ended("silence", account),
    missed,
  });

  /** Tells the others what was seen here, and when on duty, looks at what they told. */
  async function lookTogether(shared: NonNullable<typeof sightings>): Promise<void> {
    await shared.flush();
    await telling.settle();
    if (!(await store.duty("alarms", dutyMs))) {
      isOnDuty = false;
      for (const account of Object.keys(settings().accounts)) metrics().reconcile.silence.set({ account }, 0);
      return;
    }
    const isNew = !isOnDuty;
    if (isNew) await goOn();
    isOnDuty = true;
    // Back to what a process that died may have found out last, and to what ends an alarm of its.
    const from = Math.min(now() - 2 * reach(), ...watch.alarms().map(({ since }) => since));
    const pollNews = new Map<string, PollNews>();
    for (const { account, at, polls, ...counts } of await shared.read(from)) {
      watch.took(account, at, counts);
      if (polls !== undefined) pollNews.set(account, polls);
    }
    for (const [account, polls] of pollNews) if (Object.hasOwn(settings().accounts, account)) notePolls(account, polls);
    lookForSilence();
    // What is known here of keys may be old at first, and is asked for anew by looking.
    if (isNew) services.limiters();
    else lookAtKeys();
    for (let [change] = unnoted; change !== undefined; [change] = unnoted) {
      const isOurs = await store.noteAlarm(change);
      unnoted.shift();
      if (isOurs) telling.tell(change);
    }
  }

  /** With the alarms that whoever watched before has noted; what that one did not come to tell of is told now. */
  async function goOn(): Promise<void> {
    const known = settings().accounts;
    const untold = await store.untoldAlarms();
    const inForce = (await store.alarmsInForce()).filter(({ account }) => Object.hasOwn(known, account));
    // The beginning of one before its end.
    for (const change of untold.toSorted((a, b) => a.state.localeCompare(b.state))) telling.tell(change);
    unnoted = [];
    alarms.adopt(inForce);
    watch.adopt(inForce.filter(({ alarm }) => alarm === "silence"));
  }

  function look(): void {
    lookForSilence();
    lookAtKeys();
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
    if (!isOnDuty) return;
    const text = "the service refuses the API key: missing, misspelled or revoked";
    alarms.began({ alarm: "key", account, since: now(), text, causes: [] });
  }

  function notePolls(account: string, news: PollNews): void {
    if (news === null) alarms.ended("polls", account);
    else alarms.began({ alarm: "polls", account, since: now(), text: news, causes: [] });
  }

  function wait(): void {
    if (isClosed) return;
    cancel = clock.after(lookEveryMs, () => {
      if (sightings === null) {
        look();
        wait();
        return;
      }
      looking = lookTogether(sightings)
        .catch((error: unknown) => {
          // While the store cannot be asked, it says so itself.
          if (!(error instanceof StoreUnavailable)) log.error({ err: error }, "watching over webhooks failed; tried again");
        })
        .then(wait);
    });
  }

  return {
    start: wait,
    arrived({ account, origin, subject, envelope }: ReceivedEvent): void {
      if (origin !== "webhook") return;
      const isSilent = isTruncated(envelope) && envelope.event.startsWith("message.");
      if (sightings !== null) {
        sightings.add(account, { events: 1, ...(isSilent ? { truncated: 1 } : {}) });
        return;
      }
      if (subject.type === "message") watch.arrived(account, subject.wamid, subject.status);
      else watch.arrived(account, null, null);
      if (isSilent) watch.truncated(account);
    },
    learned: sightings?.learned ?? watch.learned,
    /** `sentAt`: unix ms; of a message sent long ago no event is to come any more. */
    registered(account: string, sentAt: number | undefined): void {
      if (sentAt !== undefined && now() - sentAt >= reach()) return;
      if (sightings === null) watch.registered(account, 1);
      else sightings.add(account, { registered: 1 });
    },
    /** A bad signature at a source. */
    refused(source: string): void {
      const account = settings().sources[source]?.account;
      if (account === undefined) return;
      if (sightings === null) watch.refused(account);
      else sightings.add(account, { refused: 1 });
    },
    keyRefused,
    /** What a poll of an account showed: a fault of all its polls, or none. */
    polled(account: string, fault: PollFault | null): void {
      metrics().reconcile.faulty.set({ account }, fault === null ? 0 : 1);
      const news = fault === null ? null : `${faultTexts[fault.reason]} (${fault.detail})`;
      if (sightings === null) notePolls(account, news);
      else sightings.add(account, { polls: news });
    },
    alarms: () => (isOnDuty ? alarms.list() : []),
    async close(): Promise<void> {
      isClosed = true;
      cancel();
      await looking;
      // What was seen last is not lost for the others.
      await sightings?.flush().catch(() => {});
      await telling.close();
    },
  };
}

export type Watching = ReturnType<typeof createWatching>;

const faultTexts: Record<PollFault["reason"], string> = {
  "not-found":
    "the service answers 404 to every poll, and no message is marked as missing for it: are baseUrl and apiKey of this account, and the registered ids of this service?",
  refused: "the service refuses every poll",
  unreadable: "the service's answers to polls cannot be read: is baseUrl right?",
};

function textOf({ kind, causes }: SilenceAlarm): { text: string; causes: readonly string[] } {
  const what =
    kind === "nothing" ? "no webhook has come although messages were sent" : "asking tells of statuses that webhooks should have brought";
  return { text: what, causes: causes.map((cause) => causeTexts[cause]) };
}
