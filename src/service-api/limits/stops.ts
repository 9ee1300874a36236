import type { Clock } from "../../event/clock.ts";
import type { CallOutcome } from "../admission.ts";
import { nextRenewal } from "../renewal.ts";
import { refusedUnasked, type ServiceError } from "../service-error.ts";
import { type AccountState, holdToPlan, type KeyState, keyOf } from "./account-state.ts";
import { beginProbe, endDoubt, isDoubted, keyAccepted, keyRefused, keyUnsettled, leaveProbe, mayProbe } from "./key-doubt.ts";
import type { Learned } from "./learned.ts";
import type { SteadyTime } from "./steady-time.ts";

/** Why no call goes, whatever the caps say. */
export const stopReasons = ["quota", "unauthenticated", "blocked"] as const;
export type StopReason = (typeof stopReasons)[number];

/** Unix ms until which each stop is in force; null: it is not. */
export type StopState = Readonly<Record<StopReason, number | null>>;

/** A call as the stops see it: they learn only from calls that were let go after what they know. */
export interface NumberedCall {
  /** Calls are numbered as they are let go, from 1. */
  readonly number: number;
  /** It is the one that tries whether the key is good again. */
  readonly isProbe: boolean;
}

/** Which settings calls are made with: what was learned with others is not held against them. */
export interface Identity {
  readonly plan: string;
  readonly key: string;
}

/*
 * | stop | begins with | while it lasts | ends |
 * |---|---|---|---|
 * | quota | `quota-used-up` | every call is refused | at renewal of the quota, or by `resume` |
 * | unauthenticated | `unauthenticated` | refused, but for one call after each wait (`key-doubt.ts`) | that call shows the key to be good |
 * | blocked | `blocked` | every call is refused | 60 s after the last such answer |
 *
 * The passing of time is noticed when somebody asks: there is no timer.
 */
export interface Stops {
  /** Whether a call may wait for its turn, as any other or as the one that tries the key; or why not. */
  admit(): StopReason | "free" | "probe";
  refusal(reason: StopReason): ServiceError;
  /** `got` hears whether the call that asks is the one that tries; null: it cannot be known. */
  beginProbe(got: (isProbe: boolean | null) => void): void;
  /** The probe gave up before it was let go. */
  leaveProbe(): void;
  /** What came of a call; to be called in a change. Gives the stop that began with it. */
  learn(state: AccountState, newest: number, ended: EndedCall, own: Identity): StopReason | null;
  /** Ends `quota`: another plan; with `anotherKey` also the doubts about the key. */
  resume(anotherKey: boolean): void;
  state(): StopState;
}

/** A call that ended: at `now` (steady) and `wallNow` (unix ms). */
export interface EndedCall {
  readonly call: NumberedCall;
  readonly outcome: CallOutcome;
  readonly now: number;
  readonly wallNow: number;
}

/** "blocks that IP for one minute" (messaging-service-api.md, "Authentication"). */
const blockMs = 60_000;

export interface StopsParts {
  readonly clock: Clock;
  readonly time: SteadyTime;
  readonly learned: Learned;
  readonly identity: () => Identity;
}

export function createStops({ clock, time, learned, identity }: StopsParts): Stops {
  const quota = (): number | null => quotaOf(learned.view(), identity().plan, clock.now());
  const key = (): KeyState => keyOf(learned.view(), identity().key);

  return {
    admit() {
      if (quota() !== null) return "quota";
      const now = time.now();
      const isKeyDoubted = isDoubted(key());
      if (isKeyDoubted && !mayProbe(key(), now)) return "unauthenticated";
      if (now < learned.view().blockedUntil) return "blocked";
      return isKeyDoubted ? "probe" : "free";
    },
    refusal(reason) {
      if (reason !== "quota") return refusedUnasked({ kind: reason });
      return refusedUnasked({ kind: "quota", cause: null, until: quota() ?? nextRenewal(clock.now()) });
    },
    beginProbe(got) {
      const now = time.now();
      const id = identity().key;
      learned.change((state) => {
        const own = keyOf(state, id);
        const may = isDoubted(own) && mayProbe(own, now);
        if (may) beginProbe(own, now);
        return may;
      }, got);
    },
    leaveProbe() {
      const id = identity().key;
      learned.change((state) => leaveProbe(keyOf(state, id)));
    },
    learn,
    resume(anotherKey) {
      const { plan, key: id } = identity();
      learned.change((state, newest) => {
        holdToPlan(state, plan);
        state.quotaUntil = null;
        state.resumedAt = newest;
        if (anotherKey) endDoubt(keyOf(state, id), newest);
      });
    },
    state() {
      const now = time.now();
      const { blockedUntil } = learned.view();
      return {
        quota: quota(),
        unauthenticated: isDoubted(key()) ? time.toUnix(key().until) : null,
        blocked: now < blockedUntil ? time.toUnix(blockedUntil) : null,
      };
    },
  };
}

function quotaOf({ plan, quotaUntil }: AccountState, own: string, wallNow: number): number | null {
  return plan === own && quotaUntil !== null && wallNow < quotaUntil ? quotaUntil : null;
}

function learn(
  state: AccountState,
  newest: number,
  { call, outcome, now, wallNow }: EndedCall,
  { plan, key: id }: Identity,
): StopReason | null {
  const key = keyOf(state, id);
  if (outcome.type === "unauthenticated") return keyRefused(key, call, now) ? "unauthenticated" : null;
  if (outcome.type === "unknown" || outcome.type === "not-sent") keyUnsettled(key, call, now);
  else if (outcome.type === "blocked") {
    keyUnsettled(key, call, now);
    const wasBlocked = now < state.blockedUntil;
    state.blockedUntil = now + blockMs;
    return wasBlocked ? null : "blocked";
  } else keyAccepted(key, call, newest, now);
  if (outcome.type !== "quota-used-up" || call.number <= state.resumedAt) return null;
  const wasUsedUp = quotaOf(state, plan, wallNow) !== null;
  holdToPlan(state, plan);
  state.quotaUntil = nextRenewal(wallNow);
  return wasUsedUp ? null : "quota";
}
