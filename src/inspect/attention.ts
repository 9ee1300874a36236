import type { ReloadView } from "../model/answers/relay.ts";
import {
  type Alarm,
  about,
  attentionKinds,
  type ConditionName,
  conditions,
  type StoreFailure,
} from "../model/attention.ts";
import { type DatabaseFacts, databaseRisks } from "../model/database.ts";
import type { AttemptError, BreakerView, Failing, Slow } from "../model/delivery.ts";
import type { Attention } from "../model/overview.ts";
import type { StopView } from "../service/accounts.ts";
import type { QuarantineCount, RouteBacklog } from "../store/port.ts";

export interface RouteFacts extends RouteBacklog {
  readonly breaker: BreakerView;
  /** Null: no failed attempts in a row, or only another process knows of them. */
  readonly failing: Failing | null;
  /** Null: the last delivery was not slow, or only another process knows of it. */
  readonly slow: Slow | null;
}

export interface BackupFailure {
  readonly since: number;
  readonly text: string;
}

export interface AttentionFacts {
  readonly now: number;
  readonly routes: readonly RouteFacts[];
  /** Of routes that are not in the settings: renamed or removed. */
  readonly missingRoutes: readonly RouteBacklog[];
  readonly quarantine: QuarantineCount;
  readonly alarms: readonly Alarm[];
  readonly stops: readonly StopView[];
  readonly storeFailure: StoreFailure | null;
  /** Of scheduled backups. */
  readonly backupFailure: BackupFailure | null;
  /** Null: the store is no server, or does not answer. */
  readonly database: DatabaseFacts | null;
  readonly reload: Pick<ReloadView, "result" | "at" | "faults">;
  /** Accounts whose service answers no poll. */
  readonly unreachable: readonly { readonly account: string; readonly since: number }[];
}

/** When a condition was noticed first, for one whose beginning is not stored. */
type Noticed = (condition: string) => number;

/** Failures that last less are usual while a destination restarts. The breaker may open earlier. */
const failingForMs = 60_000;
/**
 * Fewer failures in a row may be the fault of single deliveries. `atOnce` are not, however fast
 * they came.
 */
const failuresInRow = { least: 3, atOnce: 10 };
const overdueMs = 600_000;
/** A shorter pause ends before anybody could act. */
const longPauseMs = 60_000;
/**
 * The service blocks an address for a minute; a longer block means that calls with a bad key go on.
 */
const blockedForMs = 120_000;
const unreachableForMs = 300_000;

export function attentionOf(facts: AttentionFacts, noticed: Noticed): Attention[] {
  const risks = facts.database === null ? [] : databaseRisks(facts.database);
  const entries = [
    ...ofRelay(facts, noticed),
    ...risks.map(({ condition, of, text, cure }) =>
      entry(condition, null, noticed(`${condition} ${of}`), text, { cure }),
    ),
    ...facts.routes.flatMap((route) => ofRoute(route, facts.now, noticed)),
    ...facts.routes.flatMap(ofDead),
    ...facts.missingRoutes.flatMap((route) => ofMissing(route, noticed)),
    ...facts.alarms.flatMap(ofAlarm),
    ...ofStops(facts, noticed),
    ...ofUnreachable(facts),
  ];
  return entries.toSorted((a, b) => rank(a) - rank(b) || a.since - b.since);
}

const rank = ({ kind }: Attention): number => attentionKinds.indexOf(kind);

/** `cure`: what to do here, where the table's is too general. */
function entry(
  name: ConditionName,
  subject: string | null,
  since: number,
  what: string,
  { cure = conditions[name].cure, ...more }: Partial<Attention> & { readonly cure?: string } = {},
): Attention {
  const { kind, severity, action = null } = conditions[name];
  const text = cure === "" ? what : `${what} ${about(cure, subject)}`;
  return { kind, severity, subject, since, waiting: null, nextAt: null, text, action, ...more };
}

function* ofRelay(
  { quarantine, storeFailure, backupFailure, reload }: AttentionFacts,
  noticed: Noticed,
): Generator<Attention> {
  if (storeFailure !== null) {
    const { text, isLost } = storeFailure;
    const what = `The relay cannot store events and answers webhooks with 503: ${text}.`;
    yield entry("store-failing", null, noticed("store"), what, isLost ? { cure: "" } : {});
  }
  if (quarantine.oldestAt !== null) {
    const { events, oldestAt } = quarantine;
    const what = many(
      events,
      "signed webhook is not a valid event",
      "signed webhooks are not valid events",
    );
    yield entry("quarantined", null, oldestAt, `${what}.`, { waiting: events });
  }
  if (quarantine.unassigned.oldestAt !== null) {
    const { events, oldestAt } = quarantine.unassigned;
    const what = many(events, "event is", "events are");
    const text = `${what} for business numbers that no account has.`;
    yield entry("unassigned", null, oldestAt, text, { waiting: events });
  }
  if (backupFailure !== null) {
    const { since, text } = backupFailure;
    yield entry("backup-failing", null, since, `The relay cannot make scheduled backups: ${text}.`);
  }
  const [fault] = reload.faults;
  if (reload.result === "refused" && fault !== undefined) {
    const place = fault.path === "" ? "" : `${fault.path} `;
    const rest =
      reload.faults.length > 1
        ? ` ${many(reload.faults.length - 1, "more fault", "more faults")} in the log.`
        : "";
    const text = `The last reload was refused: ${place}${fault.message}.${rest}`;
    yield entry("settings-refused", null, reload.at, text);
  }
}

/**
 * At most one entry: a stopped destination is not called, and a paused one is not called before its
 * time.
 */
function ofRoute(facts: RouteFacts, now: number, noticed: Noticed): Attention[] {
  const { route, waiting, held, dead, breaker, failing } = facts;
  const open = waiting + held;
  const wait = open === 0 ? "No deliveries wait" : many(open, "delivery waits", "deliveries wait");
  if (breaker.stop !== null) {
    const text = `${route} is stopped: ${breaker.stop.reason}. ${open === 0 ? "New deliveries will wait" : wait}.`;
    return [entry("destination-stopped", route, breaker.stop.at, text, { waiting: open })];
  }
  const pause = pauseOf(facts, now, noticed);
  if (pause !== null) {
    const text = `${route} asked not to be called for a while (429 with Retry-After). ${wait} until then.`;
    return [
      entry("destination-paused", route, pause, text, {
        waiting: open,
        nextAt: breaker.pausedUntil,
      }),
    ];
  }
  // Nothing to repair. Dead letters count: a destination may refuse each delivery for good.
  if (open + dead === 0) return ofSlow(facts, now);
  const failingSince = failingSinceOf(facts, now);
  if (failingSince !== null) {
    const what = failing === null ? "fails" : causeText(failing.cause);
    const repair = repairOf(failing?.cause);
    const more = { waiting: open, nextAt: nextAttemptOf(facts, now) } as const;
    // Without a backlog there is nothing to retry: dead letters have an entry of their own.
    const cure =
      open === 0
        ? { cure: repair, action: null }
        : { cure: `${repair} The relay keeps trying; to try at once, retry.` };
    return [
      entry("destination-failing", route, failingSince, `${route} ${what}. ${wait}.`, {
        ...more,
        ...cure,
      }),
    ];
  }
  if (facts.oldestDueAt !== null && now - facts.oldestDueAt > overdueMs) {
    const text = `Deliveries to ${route} are late. ${wait}.`;
    return [entry("destination-late", route, facts.oldestDueAt, text, { waiting: open })];
  }
  return ofSlow(facts, now);
}

/** Also without a backlog. A slower answer would be a timeout, and its delivery is made twice. */
function ofSlow({ route, slow }: RouteFacts, now: number): Attention[] {
  if (slow === null || !isInRow(slow, now)) return [];
  return [
    entry(
      "destination-slow",
      route,
      slow.since,
      `Deliveries to ${route} take more than half of its timeout.`,
    ),
  ];
}

function pauseOf(
  { route, waiting, breaker }: RouteFacts,
  now: number,
  noticed: Noticed,
): number | null {
  const { pausedUntil } = breaker;
  if (pausedUntil === null || pausedUntil <= now) return null;
  const since = noticed(`paused ${route}`);
  return waiting > 0 && pausedUntil - since >= longPauseMs ? since : null;
}

function failingSinceOf({ breaker, failing }: RouteFacts, now: number): number | null {
  const since = earliest(breaker.failingSince, failing?.since ?? null);
  if (breaker.state !== "closed") return since ?? now;
  return failing !== null && isInRow(failing, now) ? since : null;
}

function isInRow({ attempts, since }: Slow, now: number): boolean {
  return (
    attempts >= failuresInRow.atOnce ||
    (attempts >= failuresInRow.least && now - since >= failingForMs)
  );
}

/** When the next attempt is made; null: now, or nothing waits, or the destination is stopped. */
export function nextAttemptOf(
  { waiting, oldestDueAt, breaker }: RouteFacts,
  now: number,
): number | null {
  if (waiting === 0 || breaker.stop !== null) return null;
  const at = Math.max(oldestDueAt ?? 0, breaker.openUntil ?? 0, breaker.pausedUntil ?? 0);
  return at > now ? at : null;
}

function ofMissing({ route, waiting, held }: RouteBacklog, noticed: Noticed): Attention[] {
  const open = waiting + held;
  if (open === 0) return [];
  const text = `${many(open, "delivery waits", "deliveries wait")} for the route ${route}, which is not in the settings.`;
  return [entry("route-missing", route, noticed(`missing ${route}`), text, { waiting: open })];
}

function ofDead({ route, dead, deadSince }: RouteFacts): Attention[] {
  if (dead === 0 || deadSince === null) return [];
  const text = `${many(dead, "delivery", "deliveries")} to ${route} ran out of attempts.`;
  return [entry("dead-letters", route, deadSince, text, { waiting: dead })];
}

function ofAlarm({ alarm, account, since, text, causes }: Alarm): Attention[] {
  if (alarm === "key") return [keyRefused(account, since)];
  // Others were made from entries.
  if (alarm !== "silence" && alarm !== "polls") return [];
  const likely =
    causes.length === 0 || alarm === "polls" ? {} : { cure: `Likely: ${causes.join("; or ")}` };
  return [
    entry(
      alarm === "silence" ? "no-webhooks" : "reconcile-failing",
      account,
      since,
      `Account ${account}: ${text}.`,
      likely,
    ),
  ];
}

function keyRefused(account: string, since: number): Attention {
  const text = `The messaging service refuses the API key of account ${account}.`;
  return entry("account-stopped", account, since, text);
}

function ofStops({ now, alarms, stops }: AttentionFacts, noticed: Noticed): Attention[] {
  return stops.flatMap(({ account, reason, resource, until }) => {
    if (reason === "unauthenticated") {
      const isAlarm = alarms.some((alarm) => alarm.alarm === "key" && alarm.account === account);
      return isAlarm ? [] : [keyRefused(account, noticed(`key ${account}`))];
    }
    // A quota may have been renewed: the next call shows it.
    if (until <= now) return [];
    const since = noticed(`${reason} ${account}`);
    if (reason === "blocked") {
      const text = `The messaging service blocks this address because of bad keys.`;
      return now - since < blockedForMs
        ? []
        : [entry("account-stopped", account, since, text, { nextAt: until })];
    }
    const quota = resource === null ? "A monthly quota" : `The monthly quota ${resource}`;
    const text = `${quota} of account ${account} is used up: ${stopTexts[reason]} until it is renewed.`;
    return [entry("quota-used-up", account, since, text, { nextAt: until })];
  });
}

const stopTexts: Record<Exclude<StopView["reason"], "unauthenticated" | "blocked">, string> = {
  quota: "the relay makes no calls",
  "quota-messages": "the relay sends no messages",
  "quota-runs": "the relay starts no automation runs",
  "quota-reads": "the relay polls nothing",
};

function ofUnreachable({ now, unreachable }: AttentionFacts): Attention[] {
  return unreachable.flatMap(({ account, since }) => {
    const text = `The messaging service does not answer the polls of account ${account}.`;
    const cure = "Check baseUrl, DNS and the network.";
    return now - since < unreachableForMs
      ? []
      : [entry("reconcile-failing", account, since, text, { cure })];
  });
}

const causeTexts: Record<AttemptError, string> = {
  timeout: "does not answer in time",
  connect: "does not accept connections",
  dns: "has a host name that cannot be resolved",
  reset: "closes the connection without an answer",
  tls: "fails the TLS handshake",
  blocked: "has a private address, which allowPrivate does not allow",
  protocol: "sends an answer that is not HTTP",
  rejected: "answers 2xx with a text of failIfBody",
  aborted: "did not answer before the relay stopped",
  internal: "cannot be called because of a fault of the relay",
  refused: "refuses the command",
  unreachable: "cannot be reached",
  hung: "does not answer in time",
  loading: "is reading its files after a start",
  clients: "accepts no more clients",
  cluster: "has no node for the key",
  credentials: "refuses the user or the password",
  database: "has no database of that number",
  stranger: "is not a Redis, or fails the TLS handshake",
  full: "has no memory left",
  "read-only": "is a read-only replica",
  disk: "cannot write its files",
  replicas: "has too few replicas",
};

/** `cause`: an HTTP status, or the error of an attempt. */
function causeText(cause: string): string {
  return Object.hasOwn(causeTexts, cause) ? causeTexts[cause as AttemptError] : `answers ${cause}`;
}

/** Which settings of the route may cause as well as its destination. */
const settingCauses: readonly (string | undefined)[] = [
  "blocked",
  "dns",
  "tls",
  "credentials",
  "database",
  "stranger",
  "cluster",
] satisfies AttemptError[];

function repairOf(cause: string | undefined): string {
  const status = Number(cause);
  if (status >= 300 && status < 400) return "Set the URL of the route to where it redirects.";
  if (settingCauses.includes(cause))
    return "Correct the settings of the route, or repair the destination.";
  if (status === 429) return "Lower the rate or the concurrency of the route.";
  const isRefusal = cause === "rejected" || (status >= 400 && status < 500 && status !== 408);
  return isRefusal
    ? "Check the URL, the headers and the secret of the route."
    : "Repair the destination.";
}

function earliest(a: number | null, b: number | null): number | null {
  return a === null || b === null ? (a ?? b) : Math.min(a, b);
}

function many(count: number, one: string, more: string): string {
  return `${count.toLocaleString("en-US")} ${count === 1 ? one : more}`;
}

const noBacklog = { waiting: 0, held: 0, dead: 0, oldestDueAt: null, deadSince: null };
const noBreaker: BreakerView = {
  state: "closed",
  pausedUntil: null,
  openUntil: null,
  failingSince: null,
  stop: null,
};

export function routeFacts(
  route: string,
  backlog?: RouteBacklog,
  breaker: BreakerView = noBreaker,
  failing: Failing | null = breaker.failing ?? null,
  slow: Slow | null = null,
): RouteFacts {
  return { ...noBacklog, ...backlog, route, breaker, failing, slow };
}

/**
 * Remembers since when conditions hold, and forgets those that `use` did not name: they have ended.
 */
export function createNoticing(now: () => number): <T>(use: (noticed: Noticed) => T) => T {
  let known = new Map<string, number>();
  return (use) => {
    const seen = new Map<string, number>();
    const found = use((condition) => {
      const since = known.get(condition) ?? now();
      seen.set(condition, since);
      return since;
    });
    known = seen;
    return found;
  };
}
