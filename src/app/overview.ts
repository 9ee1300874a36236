import type { Settings } from "../config/schema.ts";
import type { OverviewPort } from "../control/overview.ts";
import type { LaneState } from "../deliver/lane.ts";
import { kindOf } from "../deliver/settings.ts";
import type { Alarm } from "../model/alarm.ts";
import type { ReloadView } from "../model/answers.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { Attention, DestinationView, OverviewView } from "../model/overview.ts";
import type { BreakerView } from "../model/shared-limits.ts";
import type { StopView } from "../service/accounts.ts";
import type { HistoryReading } from "../store/reading.ts";
import type { QuarantineCount, RouteBacklog, Unplanned } from "../store/views.ts";
import { type AttentionFacts, attentionOf, createNoticing, nextAttemptOf, type RouteFacts } from "./attention.ts";
import { answerOr } from "./gauges.ts";
import { type LastHour, noHistory, readLastHour } from "./last-hour.ts";
import type { Supervisor } from "./supervise.ts";

interface OverviewParts {
  readonly relay: OverviewView["relay"];
  readonly now: () => number;
  /** Null for a command: it looks only when asked. */
  readonly supervise: Supervisor["supervise"] | null;
  readonly settings: () => Settings;
  readonly backlog: () => MaybePromise<readonly RouteBacklog[]>;
  readonly unplanned: () => MaybePromise<Unplanned>;
  readonly quarantine: () => MaybePromise<QuarantineCount>;
  readonly lanes: () => ReadonlyMap<string, LaneState>;
  /** Of the routes of the settings. */
  readonly breakers: () => MaybePromise<ReadonlyMap<string, BreakerView>>;
  /** Whether another process may have attempts in flight. */
  readonly hasOtherWorkers: () => MaybePromise<boolean>;
  readonly history: HistoryReading;
  readonly alarms: () => MaybePromise<readonly Alarm[]>;
  readonly stops: () => readonly StopView[];
  /** Accounts whose service answers no poll, and since when. */
  readonly unreachable: () => MaybePromise<AttentionFacts["unreachable"]>;
  /** Why the store cannot write; null: it can. */
  readonly storeFailure: () => string | null;
  readonly reload: () => ReloadView;
}

/** How often to look while nobody does, so that the times at which entries began and ended are right. */
const lookEveryMs = 15_000;
/** How often the history is read at most. */
const historyEveryMs = 5_000;
/** Callers within this time share one answer. */
const sharedMs = 500;

const noBreaker: BreakerView = { state: "closed", pausedUntil: null, openUntil: null, failingSince: null };

/** Gathers what `GET /v1/overview` shows from the store and the parts of this process. */
export function createOverview(parts: OverviewParts): OverviewPort {
  const { now, settings } = parts;
  const noticing = createNoticing(now);
  let goodSince = parts.relay.startedAt;
  let wasGood = true;
  let last: OverviewView | null = null;
  let reading: Promise<OverviewView> | null = null;
  /** Reused while the store is unavailable. */
  let stored = {
    unplanned: { events: 0, oldestAt: null } as Unplanned,
    quarantine: { events: 0, oldestAt: null } as QuarantineCount,
    breakers: new Map() as ReadonlyMap<string, BreakerView>,
    alarms: [] as readonly Alarm[],
    hasOtherWorkers: false,
    unreachable: [] as AttentionFacts["unreachable"],
  };
  let lastHour = noHistory;
  let readAt = Number.NEGATIVE_INFINITY;

  /** The figures change by the minute; most of the time the hour before is reused. */
  async function readHistory(): Promise<LastHour> {
    const at = now();
    if (Math.abs(at - readAt) < historyEveryMs) return lastHour;
    readAt = at;
    const routes = settings().routes.map(({ name }) => name);
    lastHour = await answerOr(() => readLastHour(parts.history, routes, at), lastHour);
    return lastHour;
  }

  /** What needs attention now. It remembers when each entry began and ended. */
  async function notice() {
    const backlog = new Map((await parts.backlog()).map((entry) => [entry.route, entry]));
    const [unplanned, quarantine, breakers, alarms, hasOtherWorkers, unreachable] = await Promise.all([
      answerOr(parts.unplanned, stored.unplanned),
      answerOr(parts.quarantine, stored.quarantine),
      answerOr(parts.breakers, stored.breakers),
      answerOr(parts.alarms, stored.alarms),
      answerOr(parts.hasOtherWorkers, stored.hasOtherWorkers),
      answerOr(parts.unreachable, stored.unreachable),
    ]);
    stored = { unplanned, quarantine, breakers, alarms, hasOtherWorkers, unreachable };
    const { accounts, routes } = settings();
    const lanes = parts.lanes();
    const at = now();
    const facts: AttentionFacts = {
      now: at,
      routes: routes.map(({ name }) => routeFacts(name, backlog.get(name), breakers.get(name), lanes.get(name))),
      quarantine,
      unplanned,
      alarms: alarms.filter(({ account }) => Object.hasOwn(accounts, account)),
      stops: parts.stops(),
      storeFailure: parts.storeFailure(),
      reload: parts.reload(),
      unreachable: unreachable.filter(({ account }) => Object.hasOwn(accounts, account)),
    };
    const attention = noticing.look((noticed) => attentionOf(facts, noticed));
    if (attention.length === 0 && !wasGood) goodSince = at;
    wasGood = attention.length === 0;
    return { at, routes, lanes, facts, attention, backlog: [...backlog.values()], hasOtherWorkers };
  }

  async function look(): Promise<OverviewView> {
    const [noticed, hour] = await Promise.all([notice(), readHistory()]);
    const { at, routes, lanes, facts, attention, backlog, hasOtherWorkers } = noticed;
    const dead = backlog.reduce((sum, route) => sum + route.dead, 0);
    last = {
      at,
      relay: parts.relay,
      attention,
      goodSince,
      figures: {
        eventsPerSecond: { value: hour.eventsPerSecond, lastHour: hour.figures.eventsPerSecond },
        ackP99Ms: { value: hour.ackP99Ms, lastHour: hour.figures.ackP99Ms },
        oldestDeliverySeconds: {
          value: oldestSeconds(backlog, at),
          lastHour: hour.figures.oldestDeliverySeconds,
        },
        deliveredShare: { value: hour.deliveredShare, lastHour: hour.figures.deliveredShare },
        deadLetters: { value: dead, lastHour: hour.figures.deadLetters },
      },
      destinations: routes.map((route, index) => {
        const own = facts.routes[index] as RouteFacts;
        const lane = lanes.get(route.name);
        const inFlight = hasOtherWorkers || lane === undefined ? null : lane.inFlight;
        return { ...place(route.to), ...destination(own, attention, at), ...hour.of(route.name), inFlight };
      }),
    };
    return last;
  }

  function read(): Promise<OverviewView> {
    reading ??= look().finally(() => {
      reading = null;
    });
    return reading;
  }

  parts.supervise?.({
    name: "the overview",
    firstMs: 0,
    async run() {
      await notice();
      return lookEveryMs;
    },
  });

  return {
    async read() {
      const age = last === null ? Number.POSITIVE_INFINITY : now() - last.at;
      return last !== null && age >= 0 && age < sharedMs ? last : read();
    },
  };
}

function routeFacts(
  route: string,
  backlog: RouteBacklog | undefined,
  breaker: BreakerView = noBreaker,
  lane: LaneState | undefined,
): RouteFacts {
  const none = { waiting: 0, held: 0, dead: 0, oldestDueAt: null, deadSince: null, stopped: null, stoppedAt: null };
  return { ...none, ...backlog, route, breaker, failing: lane?.failing ?? null };
}

const destinationKinds: ReadonlySet<string> = new Set(["destination-stopped", "destination-failing", "destination-paused"]);

function destination(facts: RouteFacts, attention: readonly Attention[], now: number) {
  const { route, waiting, held, dead, stopped } = facts;
  const entry = attention.find(({ kind, subject }) => subject === route && destinationKinds.has(kind));
  const state: DestinationView["state"] = stopped !== null ? "stopped" : entry === undefined ? "ok" : "attention";
  return {
    route,
    state,
    reason: entry?.text ?? null,
    since: entry?.since ?? null,
    waiting,
    held,
    dead,
    nextAt: nextAttemptOf(facts, now),
  };
}

function place(to: Settings["routes"][number]["to"]): Pick<DestinationView, "to" | "kind"> {
  const kind = kindOf(to);
  if ("url" in to) return { kind, to: URL.parse(to.url)?.host ?? "" };
  return { kind, to: "queue" in to ? to.queue : to.stream };
}

function oldestSeconds(backlog: readonly RouteBacklog[], now: number): number {
  const due = backlog.flatMap(({ oldestDueAt }) => (oldestDueAt === null ? [] : [oldestDueAt]));
  return due.length === 0 ? 0 : Math.max(0, Math.round((now - Math.min(...due)) / 1000));
}
