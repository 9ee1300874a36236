import type { Settings } from "../config/schema.ts";
import { fingerprintOf } from "../deliver/destinations/url.ts";
import type { LaneState } from "../deliver/lane.ts";
import { appOf, kindOf } from "../deliver/settings.ts";
import { conditions } from "../model/attention.ts";
import { noHistory, noRouteHour } from "../model/last-hour.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { Attention, DestinationView, OverviewView } from "../model/overview.ts";
import type { RouteBacklog } from "../store/port.ts";
import type { StoreReading } from "../store/read/reading.ts";
import { nextAttemptOf, routeFacts } from "./attention.ts";
import { answerOr, createCount } from "./count.ts";
import type { Diagnosis } from "./diagnosis.ts";

interface OverviewParts {
  readonly relay: OverviewView["relay"];
  readonly now: () => number;
  readonly settings: () => Pick<Settings, "routes">;
  readonly diagnose: () => Promise<Diagnosis>;
  readonly lanes: () => ReadonlyMap<string, LaneState>;
  /** Whether another process may have attempts in flight. */
  readonly hasOtherWorkers: () => MaybePromise<boolean>;
  readonly read: Pick<StoreReading, "lastHour" | "handshakes">;
}

/**
 * How long the last hour is reused, in ms: its figures change by the minute. With many routes,
 * reading it takes a second of a thread.
 */
const hourFresh = { least: 5_000, most: 60_000, times: 20 };
/** Callers within this time, in ms, share one answer. */
const shared = { least: 500, most: 500, times: 0 };

export function createOverview(parts: OverviewParts): () => Promise<OverviewView> {
  const { now, settings } = parts;
  let hasOtherWorkers = false;
  const lastHour = createCount(now, () => parts.read.lastHour(now()), noHistory, hourFresh);

  async function readNow(): Promise<OverviewView> {
    const [{ facts, attention, backlog, goodSince }, hour] = await Promise.all([
      parts.diagnose(),
      lastHour(),
    ]);
    hasOtherWorkers = await answerOr(parts.hasOtherWorkers, hasOtherWorkers);
    const at = facts.now;
    const lanes = parts.lanes();
    const own = new Map(facts.routes.map((route) => [route.route, route]));
    const entries = entriesByRoute(attention);
    const routes = settings().routes.map((route) => ({ ...route, app: appOf(route) }));
    const done = routes.some(({ app }) => app !== null) ? await parts.read.handshakes() : null;
    const { oldestDeliverySeconds, deadLetters, ...figures } = hour.figures;
    return {
      at,
      relay: parts.relay,
      attention,
      goodSince,
      figures: {
        ...figures,
        oldestDeliverySeconds: { ...oldestDeliverySeconds, value: oldestSeconds(backlog, at) },
        deadLetters: { ...deadLetters, value: backlog.reduce((sum, route) => sum + route.dead, 0) },
      },
      destinations: routes.map(({ name: route, to, app }): DestinationView => {
        const facts = own.get(route) ?? routeFacts(route);
        const { waiting, held, dead, breaker } = facts;
        const entry = entries.get(route);
        const lane = lanes.get(route);
        return {
          route,
          kind: kindOf(to),
          to: "url" in to ? (URL.parse(to.url)?.host ?? "") : "queue" in to ? to.queue : to.stream,
          state: breaker.stop !== null ? "stopped" : entry === undefined ? "ok" : "attention",
          reason: entry?.text ?? null,
          since: entry?.since ?? null,
          waiting,
          held,
          dead,
          nextAt: nextAttemptOf(facts, at),
          ...(hour.routes.get(route) ?? noRouteHour),
          inFlight: hasOtherWorkers || lane === undefined ? null : lane.inFlight,
          handshake: app && { doneAt: done?.get(fingerprintOf(app)) ?? null },
        };
      }),
    };
  }

  return createCount(now, readNow, undefined, shared);
}

function entriesByRoute(attention: readonly Attention[]): ReadonlyMap<string | null, Attention> {
  const entries = new Map<string | null, Attention>();
  for (const entry of attention) {
    const isOfRoute = conditions[entry.kind].about === "route";
    if (isOfRoute && !entries.has(entry.subject)) entries.set(entry.subject, entry);
  }
  return entries;
}

function oldestSeconds(backlog: readonly RouteBacklog[], now: number): number {
  const due = backlog.flatMap(({ oldestDueAt }) => (oldestDueAt === null ? [] : [oldestDueAt]));
  return due.length === 0 ? 0 : Math.max(0, Math.round((now - Math.min(...due)) / 1000));
}
