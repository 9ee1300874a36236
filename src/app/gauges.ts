import type { LaneState } from "../deliver/lane.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { BreakerView } from "../model/shared-limits.ts";
import type { Gauges, ServiceGauges } from "../observe/metrics.ts";

import { type CallCap, callPriorities } from "../service/admission.ts";
import { stopReasons } from "../service/limits/account.ts";
import type { LimiterState } from "../service/limits/limiter.ts";
import { StoreUnavailable } from "../store/port.ts";
import type { RouteBacklog, Unplanned } from "../store/views.ts";

interface GaugeParts {
  readonly now: () => number;
  readonly backlog: () => MaybePromise<readonly RouteBacklog[]>;
  readonly unplanned: () => MaybePromise<Unplanned>;
  readonly lanes: () => ReadonlyMap<string, LaneState>;
  /** Of the routes of the settings. */
  readonly breakers: () => MaybePromise<ReadonlyMap<string, BreakerView>>;
  readonly limiters: () => ReadonlyMap<string, LimiterState>;
  readonly listeners: () => MaybePromise<Gauges["listeners"]>;
  readonly inFlight: () => number;
  readonly storing: () => boolean;
}

/** How long a count of the backlog is reused: counting a million rows takes about 15 ms of the main thread. */
const freshMs = 5_000;

/** Reads the gauges, including those of routes that have a backlog but are not in the settings. */
export function createGaugeReader(parts: GaugeParts): () => Promise<Gauges> {
  let countedAt = Number.NEGATIVE_INFINITY;
  let counted: readonly RouteBacklog[] = [];
  let unplanned: Unplanned = { events: 0, oldestAt: null };

  /** While the store is unavailable, keeps the last answer: a scrape reads other gauges too. */
  async function answerOr<T>(read: () => MaybePromise<T>, last: T): Promise<T> {
    try {
      return await read();
    } catch (error) {
      if (error instanceof StoreUnavailable) return last;
      throw error;
    }
  }

  return async () => {
    const now = parts.now();
    if (now - countedAt >= freshMs || now < countedAt) {
      countedAt = now;
      counted = await answerOr(parts.backlog, counted);
    }
    unplanned = await answerOr(parts.unplanned, unplanned);
    const [listeners, breakers] = await Promise.all([
      answerOr(parts.listeners, []),
      answerOr(parts.breakers, new Map<string, BreakerView>()),
    ]);
    const backlog = new Map(counted.map((entry) => [entry.route, entry]));
    const lanes = parts.lanes();
    const names = new Set([...lanes.keys(), ...backlog.keys()]);
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
    return { routes, services, listeners, unplanned, requestsInFlight: parts.inFlight(), storing: parts.storing(), now };
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
