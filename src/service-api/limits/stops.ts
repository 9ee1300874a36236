import type { Clock } from "../../event/clock.ts";
import type { CallOutcome } from "../admission.ts";
import { nextRenewal } from "../renewal.ts";
import { refusedUnasked, type ServiceError } from "../service-error.ts";
import { createKeyDoubt } from "./key-doubt.ts";
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
  /** Whether a call may wait for its turn, as the probe or as any other; or why not. */
  admit(): { readonly refused: StopReason } | { readonly isProbe: boolean };
  refusal(reason: StopReason): ServiceError;
  /** The probe gave up before it was let go. */
  probeLeft(): void;
  /** What came of a call; `newest` is the number of the call let go last. Gives the stop that began with it. */
  learn(call: NumberedCall, newest: number, outcome: CallOutcome): StopReason | null;
  /** Ends `quota`: another plan; with `anotherKey` also the doubts about the key. */
  resume(newest: number, anotherKey: boolean): void;
  state(): StopState;
}

/** "blocks that IP for one minute" (messaging-service-api.md, "Authentication"). */
const blockMs = 60_000;

export function createStops(clock: Clock, time: SteadyTime): Stops {
  const doubt = createKeyDoubt();
  /** Unix ms, because renewal is a date. */
  let quotaUntil: number | null = null;
  let resumedAt = 0;
  /** Steady ms. */
  let blockedUntil = 0;

  function quota(): number | null {
    if (quotaUntil !== null && clock.now() >= quotaUntil) quotaUntil = null;
    return quotaUntil;
  }

  return {
    admit() {
      if (quota() !== null) return { refused: "quota" };
      const now = time.now();
      const isDoubted = doubt.until() !== null;
      if (isDoubted && !doubt.mayProbe(now)) return { refused: "unauthenticated" };
      if (now < blockedUntil) return { refused: "blocked" };
      if (isDoubted) doubt.probe();
      return { isProbe: isDoubted };
    },
    refusal(reason) {
      if (reason !== "quota") return refusedUnasked({ kind: reason });
      return refusedUnasked({ kind: "quota", cause: null, until: quota() ?? nextRenewal(clock.now()) });
    },
    probeLeft: doubt.probeLeft,
    learn(call, newest, outcome) {
      const now = time.now();
      if (outcome.type === "unauthenticated") return doubt.refused(call, now) ? "unauthenticated" : null;
      if (outcome.type === "unknown" || outcome.type === "not-sent") doubt.unsettled(call, now);
      else if (outcome.type === "blocked") {
        doubt.unsettled(call, now);
        const wasBlocked = now < blockedUntil;
        blockedUntil = now + blockMs;
        return wasBlocked ? null : "blocked";
      } else doubt.accepted(call, newest);
      if (outcome.type !== "quota-used-up" || call.number <= resumedAt) return null;
      const wasUsedUp = quota() !== null;
      quotaUntil = nextRenewal(clock.now());
      return wasUsedUp ? null : "quota";
    },
    resume(newest, anotherKey) {
      quotaUntil = null;
      resumedAt = newest;
      if (anotherKey) doubt.end(newest);
    },
    state() {
      const now = time.now();
      const doubtUntil = doubt.until();
      return {
        quota: quota(),
        unauthenticated: doubtUntil === null ? null : time.toUnix(doubtUntil),
        blocked: now < blockedUntil ? time.toUnix(blockedUntil) : null,
      };
    },
  };
}
