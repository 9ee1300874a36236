type SilenceCause = "secret" | "url" | "quota" | "dropped";

/** An account's counts within the window that ends now. */
export interface Seen {
  readonly events: number;
  /** Polled statuses whose webhook did not arrive within the grace period. */
  readonly missed: number;
  /** Truncated events about a message: each stands for a status that only a poll could find. */
  readonly truncated: number;
  readonly refused: number;
  /** Messages registered since the last event, or since the start: their count, and unix ms of the first. */
  readonly registered: { readonly count: number; readonly first: number | null };
  /** The monthly quota of calls is used up; that of webhooks may be too. */
  readonly quotaUsedUp: boolean;
}

interface Silence {
  /** `missed`: polls found what webhooks should have reported; `nothing`: no event although messages were registered. */
  readonly kind: "missed" | "nothing";
  readonly causes: readonly SilenceCause[];
}

/** Fewer are not significant: a phone may be off, or a webhook late. */
const leastMissed = 10;
/** The part of all statuses found by polls from which webhooks count as missing. */
const missedShare = 0.2;
/** Fewer are not significant: some messages stay pending forever. */
const leastRegistered = 5;

/** Whether webhooks are missing; null: no sign of it. Causes come likeliest first. */
export function findSilence(seen: Seen, now: number, after: number): Silence | null {
  const { events, registered } = seen;
  const missed = Math.max(0, seen.missed - seen.truncated);
  const isMissed = missed >= leastMissed && missed >= missedShare * (missed + events);
  const isOverdue = registered.first !== null && now - registered.first >= after;
  const isNothing = events === 0 && isOverdue && (registered.count >= leastRegistered || missed > 0);
  if (!isMissed && !isNothing) return null;
  return { kind: isNothing ? "nothing" : "missed", causes: causesOf(seen) };
}

function causesOf({ events, refused, quotaUsedUp }: Seen): SilenceCause[] {
  const causes: SilenceCause[] = [];
  if (refused > 0) causes.push("secret");
  if (events === 0 && refused === 0) causes.push("url");
  // First when certain, else a possibility: beyond the quota of webhooks, the service sends none and reports nothing.
  if (quotaUsedUp) causes.unshift("quota");
  else if (events === 0 && refused === 0) causes.push("quota");
  if (events > 0) causes.push("dropped");
  return causes;
}

export const causeTexts: Record<SilenceCause, string> = {
  secret: "no secret of the source matches the signatures: was the secret rotated at the service?",
  url: "no event arrives: is the webhook URL right, enabled, subscribed to message.status, and reachable from outside?",
  quota: "the month's webhook deliveries may be used up: the service then sends no more until day 1",
  dropped: "some events are missing: is the URL subscribed to all of message.status, and does it answer in time?",
};

/** An account's alarm, while it lasts. */
interface AlarmSince {
  readonly account: string;
  /** Unix ms. */
  readonly since: number;
}

/** An alarm as it begins. */
export interface SilenceAlarm extends AlarmSince, Silence {}

interface SilenceWatchParts {
  readonly now: () => number;
  /** Length of the window, and longest time without an event; read at each `look`. */
  readonly after: () => number;
  readonly quotaUsedUp: (account: string) => boolean;
  readonly began: (alarm: SilenceAlarm) => void;
  readonly ended: (alarm: AlarmSince) => void;
  /** A poll found a status that no webhook reported within the grace period. */
  readonly missed: (account: string) => void;
}

/** The grace period: how much later than the poll a webhook may arrive before it counts as missing. */
const graceMs = 120_000;
/** The window slides by one of these slices at a time. */
const slices = 15;
/** Statuses that wait for their webhook; beyond this, the oldest count as missed. */
const mostPending = 10_000;

const counted = ["events", "missed", "truncated", "refused"] as const;
type Counted = (typeof counted)[number];
interface Account {
  readonly slots: { readonly slot: number; readonly counts: Record<Counted, number> }[];
  lastEvent: number | null;
  registered: { count: number; first: number | null };
}

/** Counts received and missing webhooks, and reports when an alarm begins and ends. In memory only. */
export function createSilenceWatch({ now, after, quotaUsedUp, began, ended, missed }: SilenceWatchParts) {
  const accounts = new Map<string, Account>();
  /** In the order of the polls. */
  const pending = new Map<string, { readonly account: string; readonly at: number }>();
  const alarms = new Map<string, AlarmSince>();

  function accountOf(name: string): Account {
    let account = accounts.get(name);
    if (account === undefined) {
      account = { slots: [], lastEvent: null, registered: { count: 0, first: null } };
      accounts.set(name, account);
    }
    return account;
  }

  function count(name: string, what: Counted, howMany = 1, at = now()): void {
    const { slots } = accountOf(name);
    const slot = Math.floor((at * slices) / after());
    // Not always the last: counts of other processes arrive late.
    let found = slots.findLast((one) => one.slot === slot);
    if (found === undefined) {
      found = { slot, counts: { events: 0, missed: 0, truncated: 0, refused: 0 } };
      slots.push(found);
      while ((slots[0]?.slot ?? slot) <= slot - slices) slots.shift();
    }
    found.counts[what] += howMany;
  }

  function register(name: string, howMany: number, at: number): void {
    const { registered } = accountOf(name);
    registered.count += howMany;
    registered.first ??= at;
  }

  function seen(name: string, account: Account): Seen {
    const from = Math.floor((now() * slices) / after()) - slices;
    const sums: Record<Counted, number> = { events: 0, missed: 0, truncated: 0, refused: 0 };
    for (const { slot, counts } of account.slots) {
      if (slot <= from) continue;
      for (const what of counted) sums[what] += counts[what];
    }
    return { ...sums, registered: account.registered, quotaUsedUp: quotaUsedUp(name) };
  }

  function miss(key: string, account: string): void {
    pending.delete(key);
    count(account, "missed");
    missed(account);
  }

  return {
    /** A verified event; `wamid` and `status` if it is about a message. */
    arrived(name: string, wamid: string | null, status: string | null): void {
      const account = accountOf(name);
      account.lastEvent = now();
      account.registered = { count: 0, first: null };
      count(name, "events");
      if (pending.size > 0 && wamid !== null && status !== null) pending.delete(keyOf(name, wamid, status));
    },
    /** A truncated event about a message; call it in addition to `arrived`. */
    truncated: (account: string): void => count(account, "truncated"),
    /** A poll found a status: its webhook may still arrive within the grace period. */
    learned(account: string, wamid: string, status: string): void {
      const [oldest] = pending;
      if (oldest !== undefined && pending.size >= mostPending) miss(oldest[0], oldest[1].account);
      pending.set(keyOf(account, wamid, status), { account, at: now() });
    },
    registered: (name: string, howMany: number): void => register(name, howMany, now()),
    refused: (account: string): void => count(account, "refused"),
    /** Counts of another process at `at` (unix ms). */
    took(name: string, at: number, counts: Readonly<Record<Counted, number>> & { readonly registered: number }): void {
      const account = accountOf(name);
      for (const what of counted) if (counts[what] > 0) count(name, what, counts[what], at);
      if (counts.events > 0) {
        account.lastEvent = Math.max(account.lastEvent ?? 0, at);
        account.registered = { count: 0, first: null };
      } else if (counts.registered > 0) register(name, counts.registered, at);
    },
    /** Checks for alarms; call it regularly. */
    look(): void {
      for (const [key, { account, at }] of pending) {
        if (now() - at < graceMs) break;
        miss(key, account);
      }
      for (const [name, account] of accounts) {
        const alarm = alarms.get(name);
        const silence = findSilence(seen(name, account), now(), after());
        if (silence !== null && alarm === undefined) {
          const begun = { ...silence, account: name, since: now() };
          alarms.set(name, begun);
          began(begun);
        } else if (alarm !== undefined && silence === null && (account.lastEvent ?? 0) > alarm.since) {
          // Without an event since, the silence only ended because no more messages are sent.
          alarms.delete(name);
          ended(alarm);
        }
      }
    },
    alarms: (): readonly AlarmSince[] => [...alarms.values()],
    /** Replaces the alarms by those of another process, without calling hooks. */
    adopt(others: readonly AlarmSince[]): void {
      alarms.clear();
      for (const alarm of others) alarms.set(alarm.account, alarm);
    },
  };
}

const keyOf = (account: string, wamid: string, status: string): string => `${account}\0${wamid}\0${status}`;
