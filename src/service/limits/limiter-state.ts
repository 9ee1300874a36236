import type { SteadyTime } from "../../model/clock.ts";
import { type CallCap, type CallPriority, callPriorities } from "../admission.ts";
import type { HoldState, QuotaReason } from "./account.ts";
import type { Caps } from "./caps.ts";
import type { Slots } from "./slots.ts";
import type { StopState } from "./stops.ts";

interface CapState {
  /** The plan's calls per minute. */
  readonly planned: number;
  /** Calls per minute that the service grants: as planned, or fewer for a while after it reported a smaller cap. */
  readonly granted: number;
  /** The relay's share of those: its number of slots. */
  readonly limit: number;
  /** Slots held, by calls in flight and those of the last minute. */
  readonly used: number;
  /** Calls that wait. */
  readonly waiting: Readonly<Record<CallPriority, number>>;
  /** Unix ms until which a 429 holds all calls of this cap; null: not held. */
  readonly heldUntil: number | null;
}

export interface LimiterState {
  readonly caps: Readonly<Record<CallCap, CapState>>;
  readonly stops: StopState;
  /** The service's names of used-up quotas, where known. */
  readonly resources: Readonly<Partial<Record<QuotaReason, string>>>;
}

interface LimiterParts {
  readonly planned: Caps;
  readonly granted: Caps;
  readonly slots: Slots;
  readonly holds: Readonly<Record<CallCap, HoldState>>;
  readonly waiting: (cap: CallCap, priority: CallPriority) => number;
  readonly time: SteadyTime;
  readonly stops: StopState;
  readonly resources: LimiterState["resources"];
}

/** The limiter's state, for metrics and people. */
export function limiterState({ planned, granted, slots, holds, waiting, time, stops, resources }: LimiterParts): LimiterState {
  const now = time.now();
  const capState = (cap: CallCap): CapState => {
    const { until } = holds[cap];
    return {
      planned: planned[cap],
      granted: granted[cap],
      limit: slots.limit(cap),
      used: slots.used(cap, now),
      waiting: Object.fromEntries(callPriorities.map((priority) => [priority, waiting(cap, priority)])) as Record<CallPriority, number>,
      heldUntil: until > now ? time.toUnix(until) : null,
    };
  };
  return { caps: { requests: capState("requests"), messages: capState("messages") }, stops, resources };
}
