import type { Settings } from "../config/schema.ts";
import { pausedUntil } from "../deliver/health.ts";
import type { LaneState } from "../deliver/lane.ts";
import { breakerName, type LaneSettings } from "../deliver/settings.ts";
import type { Alarm } from "../model/attention.ts";
import type { DatabaseFacts } from "../model/database.ts";
import { type BreakerView, isProxyRoute, type RouteNotes } from "../model/delivery.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { Attention } from "../model/overview.ts";
import type { StopView } from "../service/accounts.ts";
import { noQuarantine, type QuarantineCount, type RouteBacklog } from "../store/port.ts";
import { type AttentionFacts, attentionOf, createNoticing, routeFacts } from "./attention.ts";
import { answerOr } from "./count.ts";

/** What is read from the store. The last answer is reused while the store is unavailable. */
interface Stored {
  quarantine: QuarantineCount;
  /** Of the routes of the settings. */
  breakers: ReadonlyMap<string, BreakerView>;
  alarms: readonly Alarm[];
  stops: readonly StopView[];
  unreachable: AttentionFacts["unreachable"];
  /** Null: the store is no server. */
  database: DatabaseFacts | null;
}

type Reads<Facts> = { readonly [Key in keyof Facts]: () => MaybePromise<Facts[Key]> };

interface DiagnosisParts extends Reads<Stored> {
  readonly startedAt: number;
  readonly now: () => number;
  readonly settings: () => Pick<Settings, "accounts" | "routes">;
  readonly backlog: () => MaybePromise<readonly RouteBacklog[]>;
  readonly lanes: () => ReadonlyMap<string, LaneState>;
  readonly storeFailure: () => AttentionFacts["storeFailure"];
  readonly backupFailure: () => AttentionFacts["backupFailure"];
  readonly reload: () => AttentionFacts["reload"];
}

export interface Diagnosis {
  readonly facts: AttentionFacts;
  readonly backlog: readonly RouteBacklog[];
  readonly attention: readonly Attention[];
  /** When the last entry ended, or the process started. */
  readonly goodSince: number;
}

/**
 * What needs action now, from the store and the parts of this process. It remembers when each entry
 * began and ended.
 */
export function createDiagnosis(parts: DiagnosisParts): () => Promise<Diagnosis> {
  const { now, settings } = parts;
  const notice = createNoticing(now);
  let goodSince = parts.startedAt;
  let wasGood = true;
  const stored: Stored = {
    quarantine: noQuarantine,
    breakers: new Map(),
    alarms: [],
    stops: [],
    unreachable: [],
    database: null,
  };

  async function readAgain<Key extends keyof Stored>(key: Key): Promise<void> {
    const read: Reads<Stored>[Key] = parts[key];
    stored[key] = await answerOr(read, stored[key]);
  }

  return async () => {
    const counted = await parts.backlog();
    await Promise.all((Object.keys(stored) as (keyof Stored)[]).map(readAgain));
    const { quarantine, breakers, alarms, stops, unreachable, database } = stored;
    const { accounts, routes } = settings();
    const lanes = parts.lanes();
    const backlog = new Map(counted.map((entry) => [entry.route, entry]));
    const named = new Set(routes.map(({ name }) => name));
    const facts: AttentionFacts = {
      now: now(),
      routes: routes.map(({ name }) => {
        const { failing, slow } = lanes.get(name) ?? {};
        return routeFacts(name, backlog.get(name), breakers.get(name), failing, slow);
      }),
      missingRoutes: counted.filter(({ route }) => !isProxyRoute(route) && !named.has(route)),
      quarantine,
      alarms: alarms.filter(({ account }) => account !== null && Object.hasOwn(accounts, account)),
      stops,
      storeFailure: parts.storeFailure(),
      backupFailure: parts.backupFailure(),
      reload: parts.reload(),
      database,
      unreachable: unreachable.filter(({ account }) => Object.hasOwn(accounts, account)),
    };
    const attention = notice((noticed) => attentionOf(facts, noticed));
    if (attention.length === 0 && !wasGood) goodSince = facts.now;
    wasGood = attention.length === 0;
    return { facts, backlog: counted, attention, goodSince };
  };
}

/**
 * What is stored of the breakers of routes, by route. The process that delivers a route knows more.
 */
export async function storedBreakers(
  routes: readonly LaneSettings[],
  notesOf: (routes: readonly string[]) => MaybePromise<readonly RouteNotes[]>,
  now: number,
): Promise<ReadonlyMap<string, BreakerView>> {
  const notes = await notesOf(routes.map(({ name }) => name));
  return new Map(routes.map((route, place) => [route.name, breakerView(route, notes[place], now)]));
}

function breakerView(route: LaneSettings, notes: RouteNotes | undefined, now: number): BreakerView {
  const { stop = null, pause = null, opened = null, failing = null } = notes ?? {};
  const name = breakerName(route);
  const isOpened = opened?.breaker === name;
  const isOpen = isOpened && opened.until > now;
  return {
    state: isOpen ? "open" : isOpened ? "half-open" : "closed",
    pausedUntil:
      pause?.breaker === name && pause.until > now ? pausedUntil(pause.until, route, now) : null,
    openUntil: isOpen ? opened.until : null,
    failingSince: failing?.since ?? null,
    failing,
    stop,
  };
}
