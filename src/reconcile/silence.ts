/** Why webhooks are believed to be missing. Likely causes, the likeliest first. */
type SilenceCause = "secret" | "url" | "quota" | "dropped";

/** What was seen of an account within the window that ends now. */
export interface Seen {
  /** Events that proved themselves. */
  readonly events: number;
  /** Statuses learned by asking whose webhook did not come within the grace. */
  readonly missed: number;
  /** Events about a message that came without their data: each stands for a status that could only be learned by asking. */
  readonly truncated: number;
  /** Bad signatures at the account's sources. */
  readonly refused: number;
  /** Messages registered since the last event, or since the beginning: how many, and unix ms of the first. */
  readonly registered: { readonly count: number; readonly first: number | null };
  /** The service said that the monthly quota of calls is used up; that of webhooks may be too. */
  readonly quotaUsedUp: boolean;
}

interface Silence {
  /** `missed`: asking told what webhooks should have; `nothing`: no event although messages were registered. */
  readonly kind: "missed" | "nothing";
  readonly causes: readonly SilenceCause[];
}

/** Fewer tell nothing: a phone switched off, a late webhook. */
const leastMissed = 10;
/** Of all statuses, the part learned by asking from which something is wrong. */
const missedShare = 0.2;
/** Some messages stay pending for ever. */
const leastRegistered = 5;

/** Whether webhooks are missing; null: there is no sign of it. Pure. */
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
  // Used up for certain, or possibly: what is over the quota of webhooks is not sent, and nobody is told.
  if (quotaUsedUp) causes.unshift("quota");
  else if (events === 0 && refused === 0) causes.push("quota");
  if (events > 0) causes.push("dropped");
  return causes;
}

export const causeTexts: Record<SilenceCause, string> = {
  secret: "requests come with signatures that no secret of the source makes: was the secret rotated at the service?",
  url: "nothing arrives at all: is the webhook URL right, enabled, subscribed to message.status, and reachable from outside?",
  quota: "the month's webhook deliveries may be used up: the service then sends no more until day 1",
  dropped: "some arrive and some do not: is the URL subscribed to all of message.status, and does it answer in time?",
};

/** An account's alarm, while it lasts. */
interface AlarmSince {
  readonly account: string;
  /** Unix ms. */
  readonly since: number;
}

/** As it begins. */
export interface SilenceAlarm extends AlarmSince, Silence {}

interface SilenceWatchParts {
  readonly now: () => number;
  /** How far back is looked, and how long nothing may come; read at each look. */
  readonly after: () => number;
  readonly quotaUsedUp: (account: string) => boolean;
  readonly began: (alarm: SilenceAlarm) => void;
  readonly ended: (alarm: AlarmSince) => void;
  /** A status that asking told and no webhook did, within the grace. */
  readonly missed: (account: string) => void;
}

interface SilenceWatch {
  /** An event that proved itself. `wamid` and `status` of one about a message. */
  arrived(account: string, wamid: string | null, status: string | null): void;
  /** One about a message that came without its data: to be told besides `arrived`. */
  truncated(account: string): void;
  /** A status learned by asking: its webhook has the grace to come. */
  learned(account: string, wamid: string, status: string): void;
  registered(account: string, count: number): void;
  /** A bad signature. */
  refused(account: string): void;
  /** What was seen elsewhere, at `at` (unix ms). */
  took(account: string, at: number, counts: Readonly<Record<Counted, number>> & { readonly registered: number }): void;
  /** To be called from time to time. */
  look(): void;
  alarms(): readonly AlarmSince[];
  /** Those that another process found are in force, and no others; nothing is told. */
  adopt(alarms: readonly AlarmSince[]): void;
}

/** A webhook that comes this much later than the answer to a question is late and not missing. */
const graceMs = 120_000;
/** The window slides by this part of itself. */
const slices = 15;
/** Statuses that wait for their webhook; beyond that the oldest count as missed. */
const mostPending = 10_000;

const counted = ["events", "missed", "truncated", "refused"] as const;
type Counted = (typeof counted)[number];
interface Account {
  readonly slots: { readonly slot: number; readonly counts: Record<Counted, number> }[];
  lastEvent: number | null;
  registered: { count: number; first: number | null };
}

/** Counts what comes and what does not, and tells when that becomes an alarm and when it ends. In memory: it begins anew with the process. */
export function createSilenceWatch({ now, after, quotaUsedUp, began, ended, missed }: SilenceWatchParts): SilenceWatch {
  const accounts = new Map<string, Account>();
  /** In the order learned. */
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
    // Not always the last: what was seen elsewhere is told a little late.
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
    arrived(name, wamid, status) {
      const account = accountOf(name);
      account.lastEvent = now();
      account.registered = { count: 0, first: null };
      count(name, "events");
      if (pending.size > 0 && wamid !== null && status !== null) pending.delete(keyOf(name, wamid, status));
    },
    truncated: (account) => count(account, "truncated"),
    learned(account, wamid, status) {
      const [oldest] = pending;
      if (oldest !== undefined && pending.size >= mostPending) miss(oldest[0], oldest[1].account);
      pending.set(keyOf(account, wamid, status), { account, at: now() });
    },
    registered: (name, howMany) => register(name, howMany, now()),
    refused: (account) => count(account, "refused"),
    took(name, at, counts) {
      const account = accountOf(name);
      for (const what of counted) if (counts[what] > 0) count(name, what, counts[what], at);
      if (counts.events > 0) {
        account.lastEvent = Math.max(account.lastEvent ?? 0, at);
        account.registered = { count: 0, first: null };
      } else if (counts.registered > 0) register(name, counts.registered, at);
    },
    look() {
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
          // Without an event since, it would be over only in that nobody sends any more.
          alarms.delete(name);
          ended(alarm);
        }
      }
    },
    alarms: () => [...alarms.values()],
    adopt(others) {
      alarms.clear();
      for (const alarm of others) alarms.set(alarm.account, alarm);
    },
  };
}

const keyOf = (account: string, wamid: string, status: string): string => `${account}\0${wamid}\0${status}`;
