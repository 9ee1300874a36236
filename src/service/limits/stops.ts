import type { SteadyTime } from "../../model/clock.ts";
import type { CallOperation, CallOutcome } from "../admission.ts";
import { localRefusal, type ServiceError } from "../errors.ts";
import { assessRenewal } from "../renewal.ts";
import {
  type AccountState,
  type EndedCall,
  holdToPlan,
  type Identity,
  type KeyState,
  keyOf,
  type NumberedCall,
  noQuotas,
  type QuotaReason,
  type QuotaStop,
  quotaReasons,
  type StopReason,
} from "./account.ts";

/** Unix ms until which calls are refused: a quota's renewal, or when the next call may probe. Null: not in force. */
export type StopState = Readonly<Record<StopReason, number | null>>;

/*
 * | stop | begins with | while it lasts | ends |
 * |---|---|---|---|
 * | quota, quota-… | `quota-used-up` | every call, or those of a kind, is refused, but for probes (below) | a probe is answered, or by `resume` |
 * | unauthenticated | `unauthenticated` | refused, but for one call after each wait (below) | that call shows the key to be good |
 * | blocked | `blocked` | every call is refused | 60 s after the last such answer |
 *
 * There is no timer: elapsed time takes effect at the next call or read.
 */
export interface Stops {
  /** The stops that a call probes, which are then in flight as probes; none: it is a normal call. Or why it is refused. */
  admit(operation: CallOperation): readonly StopReason[] | StopReason;
  refusal(reason: StopReason): ServiceError;
  /** The probe gave up before it was sent. */
  leaveProbe(probes: readonly StopReason[]): void;
  /** Applies a call's outcome. Returns the stop that began with it. */
  learn(ended: EndedCall): StopReason | null;
  /** Ends the stops of quotas, and returns them; with `anotherKey` also ends the doubt about the key. */
  resume(anotherKey: boolean): readonly QuotaReason[];
  state(): StopState;
  resources(): Partial<Record<QuotaReason, string>>;
}

/** "blocks that IP for one minute" (messaging-service-api.md, "Authentication"). */
const blockMs = 60_000;

interface StopsParts {
  readonly time: SteadyTime;
  readonly state: AccountState;
  /** The number of the call dispatched last. */
  readonly newest: () => number;
  readonly identity: () => Identity;
}

export function createStops({ time, state, newest, identity }: StopsParts): Stops {
  const quota = (reason: QuotaReason): QuotaStop | null => quotaIn(state, reason, identity().plan);
  const key = (): KeyState => keyOf(state, identity().key);
  const untilOf = (reason: QuotaReason): number | null => {
    const stop = quota(reason);
    return stop && quotaUntil(stop, time.toUnix(time.now()), time.toUnix);
  };

  /** The stops that a call has to probe, or the one that refuses it. */
  function verdict(operation: CallOperation, now: number): StopReason | readonly StopReason[] {
    const probes: StopReason[] = [];
    for (const reason of coveringReasons(operation)) {
      const stop = quota(reason);
      if (stop === null) continue;
      if (!mayProbe(stop, now)) return reason;
      probes.push(reason);
    }
    const own = key();
    if (own.wait !== null) {
      if (!mayProbe(own, now)) return "unauthenticated";
      probes.push("unauthenticated");
    }
    return now < state.blockedUntil ? "blocked" : probes;
  }

  return {
    admit(operation) {
      const now = time.now();
      const found = verdict(operation, now);
      if (typeof found !== "string") for (const stop of probedStops(state, found, identity().key)) stop.probeUntil = now + probeMs;
      return found;
    },
    refusal(reason) {
      if (reason === "unauthenticated" || reason === "blocked") return localRefusal({ kind: reason });
      return localRefusal({ kind: "quota", cause: null, until: untilOf(reason) ?? time.toUnix(time.now()) });
    },
    leaveProbe(probes) {
      for (const stop of probedStops(state, probes, identity().key)) leaveProbe(stop);
    },
    learn: (ended) => learn(state, newest(), ended, identity()),
    resume(anotherKey) {
      const ended = quotaReasons.filter((reason) => quota(reason) !== null);
      state.plan = identity().plan;
      state.quotas = noQuotas();
      state.resumedAt = newest();
      if (anotherKey) endDoubt(key(), newest());
      return ended;
    },
    state() {
      const { blockedUntil } = state;
      const quotas = Object.fromEntries(quotaReasons.map((reason) => [reason, untilOf(reason)])) as Record<QuotaReason, number | null>;
      return {
        ...quotas,
        unauthenticated: key().wait !== null ? time.toUnix(key().until) : null,
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

function probedStops(state: AccountState, reasons: readonly StopReason[], key: string): ProbedStop[] {
  return reasons.flatMap((reason): ProbedStop[] => {
    if (reason === "unauthenticated") return [keyOf(state, key)];
    const stop = reason === "blocked" ? null : state.quotas[reason];
    return stop === null ? [] : [stop];
  });
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

/*
 * Stops that end by a probe: one call tries whether the stop still holds, while the others are refused.
 * Times are steady ms.
 */

/** Longer than a probe waits for its turn and its answer. Two probes at once would do no harm. */
const probeMs = 120_000;

type ProbedStop = Pick<QuotaStop, "until" | "probeUntil">;

function mayProbe({ until, probeUntil }: ProbedStop, now: number): boolean {
  return now >= until && now >= probeUntil;
}

/** The probe gave up before it was sent. */
function leaveProbe(stop: ProbedStop): void {
  stop.probeUntil = 0;
}

/*
 * A used-up monthly quota stops the calls that its resource covers. Times are steady ms.
 *
 * | state | what happens | becomes |
 * |---|---|---|
 * | none | a 429 with `cause` | stopped |
 * | stopped | `until` is over and a covered call comes | probing: this call is the probe |
 * | probing | a 429 with the same cause | stopped |
 * | probing | any other answer that shows a working key | none |
 * | probing | no answer, a per-minute 429, a refused key or address | stopped, for 5 minutes |
 * | probing | the probe gives up before it is sent, or its process ends (2 minutes) | the next call is the probe |
 * | any | `resume`, SIGHUP, another plan | none |
 *
 * `until` is the renewal where it is certain. Otherwise a probe goes every hour, so a wrong judgment costs an hour.
 */

const hourMs = 3_600_000;
/** After a probe that brought no verdict. */
const unsettledMs = 5 * 60_000;

/**
 * Which calls a resource covers. The document names `apiCalls` only. A resource that it does not name, or an absent one,
 * stops the refused kind of call: if that is too little, each other kind costs one refused call.
 */
function reasonOf(resource: string | null, operation: CallOperation): QuotaReason {
  const name = resource?.toLowerCase() ?? "";
  if (name === "apicalls") return "quota";
  return name.startsWith("automation") ? "quota-runs" : `quota-${operation}`;
}

/** The stops that cover calls of an operation. */
export function coveringReasons(operation: CallOperation): readonly QuotaReason[] {
  return ["quota", `quota-${operation}`];
}

function quotaStop(resource: string | null, serviceTime: number | null, now: number, wallNow: number): QuotaStop {
  const { at, knownAt, isCertain } = assessRenewal(serviceTime, wallNow);
  const wait = knownAt - wallNow;
  // When a resource other than API calls renews is not documented.
  const isKnown = isCertain && resource?.toLowerCase() === "apicalls";
  return { resource, renewsAt: isKnown ? at : null, until: now + (isKnown ? wait : Math.min(wait, hourMs)), probeUntil: 0 };
}

/** Until when calls are refused, in unix ms: the renewal where it is certain, else when the next call may probe. */
export function quotaUntil({ renewsAt, until, probeUntil }: QuotaStop, wallNow: number, toUnix: (at: number) => number): number {
  if (renewsAt !== null && renewsAt > wallNow) return renewsAt;
  // While a probe is in flight, the others wait for its answer.
  return toUnix(Math.max(until, probeUntil));
}

function quotaUnsettled(stop: QuotaStop, now: number): void {
  stop.until = now + unsettledMs;
  leaveProbe(stop);
}

/*
 * A key is doubted after a 401. "More than 20 requests per minute from one IP address with
 * invalid keys blocks that IP for one minute, also for valid keys" (messaging-service-api.md, "Authentication"), and
 * other accounts and programs share the address. So one call probes at a time, with growing waits in between.
 *
 * | doubt | what happens | becomes |
 * |---|---|---|
 * | none | a 401 | doubt, the next try after 30 s |
 * | waiting | the wait is over and a call comes | probing: this call is the probe |
 * | probing | a 401 | waiting, for longer |
 * | probing | no answer, or the address is blocked | waiting, as long as before |
 * | probing | the probe gives up before it is sent | the next call is the probe |
 * | probing | the probe has not ended after two minutes: its process died | the next call is the probe |
 * | probing | any other answer | none |
 *
 * Calls that were in flight when a doubt began or ended change nothing. Times are steady ms.
 */

/** Waits before each probe with a refused key; the last one repeats. */
const waitsMs = [30_000, 60_000, 120_000, 240_000, 480_000, 900_000] as const;

/** A 401. True when the doubt begins with it. */
function keyRefused(key: KeyState, call: NumberedCall, now: number): boolean {
  if (key.wait !== null) {
    if (isProbe(key, call, now)) waitFrom(key, now, key.wait + 1);
    return false;
  }
  if (call.number <= key.endedAt) return false;
  waitFrom(key, now, 0);
  return true;
}

/** No answer, or one that says nothing about the key. */
function keyUnsettled(key: KeyState, call: NumberedCall, now: number): void {
  if (key.wait !== null && isProbe(key, call, now)) waitFrom(key, now, key.wait);
}

/** An answer that only a valid key gets. */
function keyAccepted(key: KeyState, call: NumberedCall, newest: number, now: number): void {
  if (isProbe(key, call, now)) endDoubt(key, newest);
}

function endDoubt(key: KeyState, newest: number): void {
  key.wait = null;
  leaveProbe(key);
  key.endedAt = newest;
}

function isProbe(key: KeyState, call: NumberedCall, now: number): boolean {
  return call.probes.includes("unauthenticated") && now < key.probeUntil;
}

function waitFrom(key: KeyState, now: number, index: number): void {
  key.wait = Math.min(index, waitsMs.length - 1);
  key.until = now + (waitsMs[key.wait] as number);
  leaveProbe(key);
}
