import type { LaneState } from "../deliver/lane.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { BreakerView } from "../model/shared-limits.ts";
import type { ServiceGauges } from "../observe/account-metrics.ts";
import type { Gauges } from "../observe/metrics.ts";
import { type CallCap, callPriorities } from "../service/admission.ts";
import { stopReasons } from "../service/limits/account.ts";
import type { LimiterState } from "../service/limits/limiter-state.ts";
import { StoreUnavailable } from "../store/port.ts";
import type { RouteBacklog, Unplanned } from "../store/views.ts";

export interface GaugeParts {
  readonly now: () => number;
  readonly backlog: () => MaybePromise<readonly RouteBacklog[]>;
  readonly unplanned: () => MaybePromise<Unplanned>;
  readonly lanes: () => ReadonlyMap<string, LaneState>;
  /** Of the routes of the settings, as all processes have them. */
  readonly breakers: () => MaybePromise<ReadonlyMap<string, BreakerView>>;
  readonly limiters: () => ReadonlyMap<string, LimiterState>;
  readonly listeners: () => MaybePromise<Gauges["listeners"]>;
  readonly inFlight: () => number;
  readonly storing: () => boolean;
}

/** How long a count of the backlog serves scrapes: a million rows take some 15 ms of the main thread. */
const freshMs = 5_000;

/** Reads what the gauges show; routes with a backlog but no settings are among them. */
export function createGaugeReader(parts: GaugeParts): () => Promise<Gauges> {
  let countedAt = Number.NEGATIVE_INFINITY;
  let counted: readonly RouteBacklog[] = [];
  let unplanned: Unplanned = { events: 0, oldestAt: null };

  /** While the store cannot be asked, the last answer stands: the scrape has much else to tell. */
  async function asked<T>(ask: () => MaybePromise<T>, last: T): Promise<T> {
    try {
      return await ask();
    } catch (error) {
      if (error instanceof StoreUnavailable) return last;
      throw error;
    }
  }

  return async () => {
    const now = parts.now();
    if (now - countedAt >= freshMs || now < countedAt) {
      countedAt = now;
      counted = await asked(parts.backlog, counted);
    }
    unplanned = await asked(parts.unplanned, unplanned);
    const [listeners, breakers] = await Promise.all([asked(parts.listeners, []), asked(parts.breakers, new Map<string, BreakerView>())]);
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
      // A refused key stays one until a call has shown otherwise; a quota may have been renewed while nobody called.
      return { reason, inForce: until !== null && (reason === "unauthenticated" || until > now) };
    }),
  };
}
