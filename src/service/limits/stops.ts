import type { SteadyTime } from "../../model/clock.ts";
import type { CallOperation, CallOutcome } from "../admission.ts";
import { localRefusal, type ServiceError } from "../errors.ts";
import {
  type AccountState,
  type EndedCall,
  forgetGranted,
  holdToPlan,
  type Identity,
  type KeyState,
  keyOf,
  noQuotas,
  type QuotaReason,
  type QuotaStop,
  quotaReasons,
  type StopReason,
} from "./account.ts";
import type { Learned } from "./learned.ts";
import {
  beginProbe,
  coveringReasons,
  endDoubt,
  isDoubted,
  keyAccepted,
  keyRefused,
  keyUnsettled,
  leaveProbe,
  mayProbe,
  quotaStop,
  quotaUnsettled,
  quotaUntil,
  reasonOf,
} from "./probes.ts";

/** Unix ms until which calls are refused: a quota's renewal, or when the next call may probe. Null: not in force. */
export type StopState = Readonly<Record<StopReason, number | null>>;

/*
 * | stop | begins with | while it lasts | ends |
 * |---|---|---|---|
 * | quota, quota-… | `quota-used-up` | every call, or those of a kind, is refused, but for probes (`probes.ts`) | a probe is answered, or by `resume` |
 * | unauthenticated | `unauthenticated` | refused, but for one call after each wait (`probes.ts`) | that call shows the key to be good |
 * | blocked | `blocked` | every call is refused | 60 s after the last such answer |
 *
 * There is no timer: elapsed time takes effect at the next call or read.
 */
interface Stops {
  /** Whether a call may join the queue, as a normal call or as a probe; or why it is refused. */
  admit(operation: CallOperation): StopReason | "free" | "probe";
  refusal(reason: StopReason): ServiceError;
  /** `got` receives the stops that the call probes, or the one that refuses it; null: unknown. */
  beginProbe(operation: CallOperation, got: (begun: readonly StopReason[] | StopReason | null) => void): void;
  /** The probe gave up before it was sent. */
  leaveProbe(probes: readonly StopReason[]): void;
  /** Applies a call's outcome. Runs inside `Learned.change`. Returns the stop that began with it. */
  learn(state: AccountState, newest: number, ended: EndedCall, own: Identity): StopReason | null;
  /** Ends the stops of quotas; with `anotherKey` also the doubt about the key. `settled` receives those it ended; null: unknown. */
  resume(anotherKey: boolean, settled?: (ended: readonly QuotaReason[] | null) => void): void;
  state(): StopState;
  resources(): Partial<Record<QuotaReason, string>>;
}

/** "blocks that IP for one minute" (messaging-service-api.md, "Authentication"). */
const blockMs = 60_000;

interface StopsParts {
  readonly time: SteadyTime;
  readonly learned: Learned;
  readonly identity: () => Identity;
}

export function createStops({ time, learned, identity }: StopsParts): Stops {
  const quota = (reason: QuotaReason): QuotaStop | null => quotaIn(learned.view(), reason, identity().plan);
  const key = (): KeyState => keyOf(learned.view(), identity().key);
  const untilOf = (reason: QuotaReason): number | null => {
    const stop = quota(reason);
    return stop && quotaUntil(stop, time.toUnix(time.now()), time.toUnix);
  };

  /** The stops that a call has to probe, or the one that refuses it. */
  function verdict(
    state: AccountState,
    operation: CallOperation,
    now: number,
    { plan, key: id }: Identity,
  ): StopReason | readonly StopReason[] {
    const probes: StopReason[] = [];
    for (const reason of coveringReasons(operation)) {
      const stop = quotaIn(state, reason, plan);
      if (stop === null) continue;
      if (!mayProbe(stop, now)) return reason;
      probes.push(reason);
    }
    const own = keyOf(state, id);
    if (isDoubted(own)) {
      if (!mayProbe(own, now)) return "unauthenticated";
      probes.push("unauthenticated");
    }
    return now < state.blockedUntil ? "blocked" : probes;
  }

  return {
    admit(operation) {
      const found = verdict(learned.view(), operation, time.now(), identity());
      if (typeof found === "string") return found;
      return found.length === 0 ? "free" : "probe";
    },
    refusal(reason) {
      if (reason === "unauthenticated" || reason === "blocked") return localRefusal({ kind: reason });
      return localRefusal({ kind: "quota", cause: null, until: untilOf(reason) ?? time.toUnix(time.now()) });
    },
    beginProbe(operation, got) {
      const now = time.now();
      const own = identity();
      learned.change((state) => {
        const found = verdict(state, operation, now, own);
        if (typeof found === "string") return found;
        for (const reason of found) {
          if (reason === "unauthenticated") beginProbe(keyOf(state, own.key), now);
          else if (reason !== "blocked") whenStopped(state, reason, (stop) => beginProbe(stop, now));
        }
        return found;
      }, got);
    },
    leaveProbe(probes) {
      if (probes.length === 0) return;
      const id = identity().key;
      learned.change((state) => {
        for (const reason of probes) {
          if (reason === "unauthenticated") leaveProbe(keyOf(state, id));
          else if (reason !== "blocked") whenStopped(state, reason, leaveProbe);
        }
      });
    },
    learn,
    resume(anotherKey, settled) {
      const { plan, key: id } = identity();
      learned.change((state, newest) => {
        const ended = quotaReasons.filter((reason) => quotaIn(state, reason, plan) !== null);
        forgetGranted(state, plan);
        state.quotas = noQuotas();
        state.resumedAt = newest;
        if (anotherKey) endDoubt(keyOf(state, id), newest);
        return ended;
      }, settled);
    },
    state() {
      const { blockedUntil } = learned.view();
      const quotas = Object.fromEntries(quotaReasons.map((reason) => [reason, untilOf(reason)])) as Record<QuotaReason, number | null>;
      return {
        ...quotas,
        unauthenticated: isDoubted(key()) ? time.toUnix(key().until) : null,
        blocked: time.now() < blockedUntil ? time.toUnix(blockedUntil) : null,
      };
    },
    resources: () =>
      Object.fromEntries(
        quotaReasons.flatMap((reason) => {
          const resource = quota(reason)?.resource;
          return resource == null ? [] : [[reason, resource]];
        }),
      ),
  };
}

function quotaIn({ plan, quotas }: AccountState, reason: QuotaReason, own: string): QuotaStop | null {
  return plan === own ? quotas[reason] : null;
}

function whenStopped({ quotas }: AccountState, reason: QuotaReason, act: (stop: QuotaStop) => void): void {
  const stop = quotas[reason];
  if (stop !== null) act(stop);
}

function learn(state: AccountState, newest: number, ended: EndedCall, own: Identity): StopReason | null {
  const began = learnQuota(state, ended, own);
  const { call, outcome, now } = ended;
  const key = keyOf(state, own.key);
  if (outcome.type === "unauthenticated") return keyRefused(key, call, now) ? "unauthenticated" : null;
  if (outcome.type === "unknown" || outcome.type === "not-sent") keyUnsettled(key, call, now);
  else if (outcome.type === "blocked") {
    keyUnsettled(key, call, now);
    const wasBlocked = now < state.blockedUntil;
    state.blockedUntil = now + blockMs;
    return wasBlocked ? null : "blocked";
  } else keyAccepted(key, call, newest, now);
  return began;
}

/** Returns the stop that began with the call. */
function learnQuota(state: AccountState, { call, operation, outcome, now, wallNow }: EndedCall, { plan }: Identity): QuotaReason | null {
  const refusedBy = outcome.type === "quota-used-up" ? reasonOf(outcome.resource, operation) : null;
  const stopNow = ({ resource, serviceTime }: Extract<CallOutcome, { type: "quota-used-up" }>) =>
    quotaStop(resource, serviceTime, now, wallNow);

  for (const reason of quotaReasons) {
    const stop = quotaIn(state, reason, plan);
    // A probe that counts as lost decides nothing.
    if (stop === null || !call.probes.includes(reason) || now >= stop.probeUntil) continue;
    if (outcome.type === "quota-used-up" && reason === refusedBy) state.quotas[reason] = stopNow(outcome);
    else if (outcome.type === "quota-used-up" || outcome.type === "answered") state.quotas[reason] = null;
    else quotaUnsettled(stop, now);
  }
  // Calls that were in flight when the stop began, or when an operator ended it, change nothing.
  if (outcome.type !== "quota-used-up" || refusedBy === null || call.number <= state.resumedAt) return null;
  if (quotaIn(state, refusedBy, plan) !== null) return null;
  holdToPlan(state, plan);
  state.quotas[refusedBy] = stopNow(outcome);
  return refusedBy;
}
