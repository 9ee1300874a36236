import type { Settings } from "../config/schema.ts";
import type { LaneState } from "../deliver/lane.ts";
import { answerOr } from "../inspect/count.ts";
import type { BreakerView } from "../model/breaker.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { Attention } from "../model/overview.ts";
import type { Gauges, ServiceGauges } from "../observe/gauges.ts";
import { type CallCap, callPriorities } from "../service/admission.ts";
import type { LimiterState } from "../service/limits/limiter.ts";
import { stopReasons } from "../service/limits/stops.ts";
import type { RouteBacklog } from "../store/views.ts";

interface GaugeParts {
  readonly settings: () => Pick<Settings, "sources">;
  readonly now: () => number;
  readonly backlog: () => MaybePromise<readonly RouteBacklog[]>;
  readonly lanes: () => ReadonlyMap<string, LaneState>;
  /** Of the routes of the settings. */
  readonly breakers: () => MaybePromise<ReadonlyMap<string, BreakerView>>;
  readonly limiters: () => ReadonlyMap<string, LimiterState>;
  readonly listeners: () => MaybePromise<Gauges["listeners"]>;
  readonly attention: () => MaybePromise<readonly Attention[]>;
  readonly inFlight: () => number;
  readonly storing: () => boolean;
}

/** Reads the gauges, including those of routes that have a backlog but are not in the settings. */
export function createGaugeReader(parts: GaugeParts): () => Promise<Gauges> {
  return async () => {
    const now = parts.now();
    const counted = await parts.backlog();
    const [attention, listeners, breakers] = await Promise.all([
      parts.attention(),
      answerOr(parts.listeners, []),
      answerOr(parts.breakers, new Map<string, BreakerView>()),
    ]);
    const backlog = new Map(counted.map((entry) => [entry.route, entry]));
    const lanes = parts.lanes();
    const names = new Set([...lanes.keys(), ...backlog.keys(), ...breakers.keys()]);
    const routes = [...names].map((route) => {
      const entry = backlog.get(route);
      const lane = lanes.get(route);
      return {
        route,
        waiting: entry?.waiting ?? 0,
        held: entry?.held ?? 0,
        dead: entry?.dead ?? 0,
        oldestDueAt: entry?.oldestDueAt ?? null,
        stopped: (lane?.stopped ?? entry?.stopped ?? null) !== null,
        breaker: breakers.get(route)?.state ?? lane?.breaker ?? ("closed" as const),
        pausedUntil: breakers.get(route)?.pausedUntil ?? lane?.pausedUntil ?? null,
        inFlight: lane?.inFlight ?? 0,
      };
    });
    const services = [...parts.limiters()].map(([account, state]) => serviceGauges(account, state, now));
    const sources = Object.entries(parts.settings().sources).map(([source, { kind, ...of }]) => ({
      source,
      format: "format" in of ? of.format : kind,
    }));
    return { attention, routes, services, sources, listeners, requestsInFlight: parts.inFlight(), storing: parts.storing(), now };
  };
}

const callCaps: readonly CallCap[] = ["requests", "messages"];

function serviceGauges(account: string, { caps, stops }: LimiterState, now: number): ServiceGauges {
  return {
    account,
    caps: callCaps.map((cap) => ({ cap, used: caps[cap].used, limit: caps[cap].limit, held: caps[cap].heldUntil !== null })),
    waiting: callPriorities.map((priority) => ({
      priority,
      calls: callCaps.reduce((sum, cap) => sum + caps[cap].waiting[priority], 0),
    })),
    stops: stopReasons.map((reason) => {
      const until = stops[reason];
      // A key stays refused until a call succeeds. A quota may have been renewed without a call.
      return { reason, inForce: until !== null && (reason === "unauthenticated" || until > now) };
    }),
  };
}
