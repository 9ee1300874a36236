import { accountsOf } from "../config/sources.ts";
import { type Alarms, byKey, createLastingConditions } from "../inspect/alarms.ts";
import type { Diagnosis } from "../inspect/diagnosis.ts";
import { type AccountNote, type AccountWatch, countsOf } from "../model/account-watch.ts";
import { type Alarm, alarmKey } from "../model/attention.ts";
import { isTruncated } from "../model/envelope.ts";
import type { ReceivedEvent } from "../model/event.ts";
import { kept } from "../model/maps.ts";
import type { PollFault } from "../model/poll.ts";
import { findSilence, isGuessable, silenceText } from "../reconcile/silence.ts";
import type { ServiceAccounts } from "../service/accounts.ts";
import { createAlarmChanges } from "./alarm-changes.ts";
import type { Background } from "./store.ts";
import type { Supervised } from "./supervise.ts";

interface WatchingParts extends Omit<Background, "privacy"> {
  readonly services: Pick<ServiceAccounts, "limiterOf">;
}

type Diagnose = () => Promise<Pick<Diagnosis, "attention">>;

export type Watching = ReturnType<typeof createWatching>;

const lookEveryMs = 15_000;
const leaseMs = 45_000;

/**
 * The alarms: whatever needs action for long enough. Each process notes what it sees of accounts,
 * because webhooks arrive at some and others poll the service. A leader compares what the store
 * then has with the alarms in force.
 */
export function createWatching({
  store,
  settings,
  services,
  clock,
  supervise,
  log,
  metrics,
}: WatchingParts) {
  const { now } = clock;
  const windowMs = () => settings().silence.after;
  const notes = createNotes({
    store,
    clock,
    windowMs,
    missed: (account) => metrics.reconcile.missed.inc({ account }),
  });
  const changes = createAlarmChanges({ store, settings, clock, log });
  const lasting = createLastingConditions(now);
  /** Why all polls of an account failed last, as seen here. */
  const faults = new Map<string, string | null>();
  let isLeader = !store.isShared;
  let task: Supervised | undefined;

  async function look(diagnose: Diagnose): Promise<number> {
    // In every process, so that the times at which entries began and ended are right.
    const { attention } = await diagnose();
    try {
      await notes.write();
    } catch (error) {
      // A store of its own may be what an alarm is about.
      if (store.isShared) throw error;
    }
    isLeader = await store.holdLease("alarms", leaseMs);
    const before = isLeader ? await changes.load() : new Map<string, Alarm>();
    const ofAccounts = byKey(isLeader ? await alarmsOfAccounts(before) : []);
    for (const account of Object.keys(settings().accounts)) {
      const isSilent = ofAccounts.has(alarmKey({ alarm: "silence", account, route: null }));
      metrics.reconcile.silence.set({ account }, isSilent ? 1 : 0);
    }
    if (isLeader) await changes.become(lasting(attention, ofAccounts, before));
    return lookEveryMs;
  }

  async function alarmsOfAccounts(before: Alarms): Promise<Alarm[]> {
    const watched = await store.watched();
    const countsOfAccount = (account: string) => {
      const watch = watched.get(account);
      return watch && countsOf(watch, now(), windowMs());
    };
    // Strangers may guess at a source whose accounts have events.
    const quiet = new Set(
      Object.values(settings().sources)
        .map(accountsOf)
        .filter((of) => of.every((account) => !countsOfAccount(account)?.events))
        .flat(),
    );
    return Object.keys(settings().accounts).flatMap((account) => {
      const watch = watched.get(account);
      return watch === undefined ? [] : [...alarmsOf(account, watch, quiet.has(account), before)];
    });
  }

  function* alarmsOf(
    account: string,
    watch: AccountWatch,
    isSourceQuiet: boolean,
    before: Alarms,
  ): Generator<Alarm> {
    const { polls, keyRefusedAt, registered, lastEventAt } = watch;
    const quotaUsedUp = services.limiterOf(account)?.stops.quota != null;
    const silence = findSilence(
      { ...countsOf(watch, now(), windowMs()), registered, quotaUsedUp, isSourceQuiet },
      now(),
      windowMs(),
    );
    const known = before.get(alarmKey({ alarm: "silence", account, route: null }));
    const of = { account, route: null };
    if (silence !== null)
      yield known ?? { ...of, alarm: "silence", since: now(), ...silenceText(silence) };
    // Without an event since, the silence only ended because no more messages are sent.
    else if (
      known !== undefined &&
      lastEventAt <= known.since &&
      (!isGuessable(known) || (isSourceQuiet && lastEventAt > 0))
    )
      yield known;
    const keyText = "the service refuses the API key: missing, misspelled or revoked";
    if (keyRefusedAt !== null)
      yield { ...of, alarm: "key", since: keyRefusedAt, text: keyText, causes: [] };
    if (polls !== null) yield { ...of, alarm: "polls", ...polls, causes: [] };
  }

  return {
    start(diagnose: Diagnose): void {
      const firstMs = store.isShared ? lookEveryMs : 0;
      task = supervise({ name: "watching over webhooks", firstMs, run: () => look(diagnose) });
    },
    arrived({ account, origin, envelope, releaseOf }: ReceivedEvent): void {
      // A released event arrived long ago.
      if (origin !== "webhook" || releaseOf !== undefined) return;
      const note = notes.of(account);
      note.events += 1;
      if (isTruncated(envelope) && envelope.event.startsWith("message.")) note.truncated += 1;
    },
    /** A poll found a new status. */
    found: notes.polled,
    /** `sentAt`: unix ms. No event is expected of a message that was sent long ago. */
    registered(account: string, sentAt: number | undefined): void {
      if (sentAt === undefined || now() - sentAt < windowMs()) notes.of(account).registered += 1;
    },
    /** A bad signature at a source. */
    refused(source: string): void {
      const of = settings().sources[source];
      for (const account of of === undefined ? [] : accountsOf(of)) notes.of(account).refused += 1;
    },
    keyRefused(account: string): void {
      notes.of(account).isKeyRefused = true;
      task?.wake();
    },
    /** A call shows that the service accepts the key. */
    keyWorked(account: string): void {
      notes.of(account).isKeyRefused = false;
    },
    /** The last poll of an account found a message (null), or showed a fault of all its polls. */
    polled(account: string, fault: PollFault | null): void {
      metrics.reconcile.faulty.set({ account }, fault === null ? 0 : 1);
      const text = fault === null ? null : `${faultTexts[fault.reason]} (${fault.detail})`;
      notes.of(account).polls = text;
      if ((faults.get(account) ?? null) !== text) task?.wake();
      faults.set(account, text);
    },
    alarms: () => (isLeader ? changes.inForce() : []),
    async close(): Promise<void> {
      await task?.close();
      // The next leader gets the last notes.
      await notes.write().catch(() => {});
    },
  };
}

const faultTexts: Record<PollFault["reason"], string> = {
  "not-found":
    "the service answers 404 to every poll, and no message is marked as missing for it: are baseUrl and apiKey of this account, and the registered ids of this service?",
  refused: "the service refuses every poll",
  unreadable: "the service's answers to polls cannot be read: is baseUrl right?",
};

interface NotesParts extends Pick<Background, "store" | "clock"> {
  readonly windowMs: () => number;
  /** A poll found a status, and its webhook did not arrive within the grace period. */
  readonly missed: (account: string) => void;
}

/** A webhook that arrives this long after the answer to a poll is late, not missing. */
const graceMs = 120_000;
/** Polled statuses that wait for their webhook; beyond that the oldest are dropped. */
const mostPending = 10_000;
/** Events of a message that are searched for one. */
const mostEvents = 100;

type Note = { -readonly [name in keyof AccountNote]: AccountNote[name] };

/** What this process saw of accounts since it was last stored. */
function createNotes({ store, clock: { now }, windowMs, missed }: NotesParts) {
  let notes = new Map<string, Note>();
  /** Statuses that polls found, in order of time. */
  const pending: {
    readonly account: string;
    readonly wamid: string;
    readonly status: string;
    readonly at: number;
  }[] = [];

  const of = (account: string): Note =>
    kept(notes, account, () => ({
      account,
      since: now(),
      events: 0,
      truncated: 0,
      refused: 0,
      registered: 0,
      missed: 0,
    }));

  /** Whether a webhook brought the status to any process. */
  async function hasArrived({
    account,
    wamid,
    status,
  }: (typeof pending)[number]): Promise<boolean> {
    const seqs = await store.read.eventsOf("message", account, wamid, 0, mostEvents);
    const events = await Promise.all(seqs.map((seq) => store.read.getEvent(seq)));
    return events.some(
      (event) => event !== null && event.origin === "webhook" && event.status === status,
    );
  }

  async function countMissed(): Promise<void> {
    for (
      let first = pending[0];
      first !== undefined && now() - first.at >= graceMs;
      first = pending[0]
    ) {
      const isLate = await hasArrived(first);
      pending.shift();
      if (isLate) continue;
      of(first.account).missed += 1;
      missed(first.account);
    }
  }

  return {
    of,
    polled(account: string, wamid: string, status: string): void {
      pending.push({ account, wamid, status, at: now() });
      if (pending.length > mostPending) pending.shift();
    },
    /** Stores the notes; what cannot be stored now is kept for the next call. */
    async write(): Promise<void> {
      await countMissed();
      if (notes.size === 0) return;
      const written = notes;
      notes = new Map();
      try {
        await store.noteWatched([...written.values()], now(), windowMs());
      } catch (error) {
        for (const [account, older] of written) {
          const newer = of(account);
          for (const name of ["events", "truncated", "refused", "registered", "missed"] as const)
            newer[name] += older[name];
          notes.set(account, { ...older, ...newer });
        }
        throw error;
      }
    },
  };
}
