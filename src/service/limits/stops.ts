import type { StoredStop } from "../../model/budget.ts";
import type { SteadyTime } from "../../model/clock.ts";
import { type CallOperation, type CallOutcome, callOperations } from "../endpoints.ts";
import { localRefusal, type ServiceError } from "../errors.ts";
import { assessRenewal } from "./caps.ts";

export type QuotaReason = "quota" | `quota-${CallOperation}`;
export const quotaReasons: readonly QuotaReason[] = ["quota", ...callOperations.map((operation) => `quota-${operation}` as const)];

/** `quota` stops all calls, `quota-…` those of an operation. */
export const stopReasons = [...quotaReasons, "unauthenticated", "blocked"] as const;
export type StopReason = QuotaReason | "unauthenticated" | "blocked";

/** `unknown`: what the account's other processes call. */
export type Refusal = StopReason | "unknown";

/** Unix ms until which calls are refused. Null: not in force. */
export type StopState = Readonly<Record<StopReason, number | null>>;

/** After `until`, one call probes whether it still holds, while the others are refused. Steady ms. */
interface ProbedStop {
  until: number;
  /** When the probe in flight counts as lost. */
  probeUntil: number;
}

export type Probes = readonly ProbedStop[];

/** `now` is steady, `wallNow` unix ms. */
export interface EndedCall {
  /** In order of dispatch. Stops learn only from calls dispatched after their latest change. */
  readonly number: number;
  readonly probes: Probes;
  readonly operation: CallOperation;
  readonly outcome: CallOutcome;
  readonly now: number;
  readonly wallNow: number;
}

/** Longer than a probe waits for its turn and its answer. Two probes at once would do no harm. */
const probeMs = 120_000;

const blockMs = 60_000;

const mayProbe = ({ until, probeUntil }: ProbedStop, now: number): boolean => now >= until && now >= probeUntil;

const isProbeOf = (stop: ProbedStop, { probes, now }: EndedCall): boolean => probes.includes(stop) && now < stop.probeUntil;

/** What a call shows of a stop. */
type Verdict = "in-force" | "over" | "unknown";

/** `stopFrom`: as an answer shows it. `stillAfter`: after a probe without a verdict. */
function createProbedStop<S extends ProbedStop>(
  stopFrom: (call: EndedCall, before: S | null) => S,
  stillAfter: (stop: S, now: number) => S,
) {
  let stop: S | null = null;
  /** The newest call then. */
  let endedAt = 0;
  const end = (newest: number): void => {
    stop = null;
    endedAt = newest;
  };
  return {
    get: (): S | null => stop,
    set(next: S | null): void {
      stop = next;
    },
    end,
    /** True: the stop begins. Calls that were in flight when it began or ended change nothing. */
    learn(call: EndedCall, verdict: Verdict, newest: number): boolean {
      if (stop === null) {
        if (verdict !== "in-force" || call.number <= endedAt) return false;
        stop = stopFrom(call, null);
        return true;
      }
      if (!isProbeOf(stop, call)) return false;
      if (verdict === "over") end(newest);
      else stop = verdict === "in-force" ? stopFrom(call, stop) : stillAfter(stop, call.now);
      return false;
    },
  };
}

interface StopsParts {
  readonly time: SteadyTime;
  readonly newest: () => number;
}

/*
 * | stop | begins with | while it lasts | ends |
 * |---|---|---|---|
 * | quota, quota-… | `quota-used-up` | every call, or those of a kind, is refused, but for probes (below) | a probe is answered, or by `resume` |
 * | unauthenticated | `unauthenticated` | refused, but for one call after each wait (below) | that call shows the key to be good |
 * | blocked | `blocked` | every call is refused | 60 s after the last such answer |
 *
 * There is no timer: elapsed time takes effect at the next call or read.
 */
export function createStops({ time, newest }: StopsParts) {
  const quotas = Object.fromEntries(quotaReasons.map((reason) => [reason, createQuotaStop()])) as Record<
    QuotaReason,
    ReturnType<typeof createQuotaStop>
  >;
  const key = createKeyDoubt();
  let isKeyVerified = false;
  let blockedUntil = 0;
  const untilOf = (reason: QuotaReason): number | null => {
    const stop = quotas[reason].get();
    return stop && quotaUntil(stop, time.toUnix(time.now()), time.toUnix);
  };

  /** Stops that concern an operation and are in force; null in place of those that are not. */
  const coveringStops = (operation: CallOperation): [StopReason, ProbedStop | null][] => [
    ...coveringReasons(operation).map((reason): [StopReason, ProbedStop | null] => [reason, quotas[reason].get()]),
    ["unauthenticated", key.get()],
  ];

  /** Why a call is refused that probes only the stops given; null: it may go. */
  function refusing(operation: CallOperation, probes: Probes, now: number): StopReason | null {
    const [reason = null] = coveringStops(operation).find(([, stop]) => stop !== null && !probes.includes(stop)) ?? [];
    return reason ?? (now < blockedUntil ? "blocked" : null);
  }

  function state(): StopState {
    const untils = Object.fromEntries(quotaReasons.map((reason) => [reason, untilOf(reason)])) as Record<QuotaReason, number | null>;
    const doubt = key.get();
    return {
      ...untils,
      unauthenticated: doubt && time.toUnix(doubt.until),
      blocked: time.now() < blockedUntil ? time.toUnix(blockedUntil) : null,
    };
  }

  return {
    admit(operation: CallOperation): Probes | StopReason {
      const now = time.now();
      const probes = coveringStops(operation).flatMap(([, stop]) => (stop !== null && mayProbe(stop, now) ? [stop] : []));
      const reason = refusing(operation, probes, now);
      if (reason !== null) return reason;
      for (const stop of probes) stop.probeUntil = now + probeMs;
      return probes;
    },
    /** Why a waiting call is refused after all; null: it goes on waiting. */
    refusing: (operation: CallOperation, probes: Probes): StopReason | null => refusing(operation, probes, time.now()),
    refusal(reason: Refusal): ServiceError {
      if (reason === "unknown") return localRefusal({ kind: "caps-unknown" });
      if (reason === "unauthenticated" || reason === "blocked") return localRefusal({ kind: reason });
      return localRefusal({ kind: "quota", cause: null, until: untilOf(reason) ?? time.toUnix(time.now()) });
    },
    leave(probes: Probes): void {
      for (const stop of probes) stop.probeUntil = 0;
    },
    /** Returns the stop that began with it. */
    learn(ended: EndedCall): StopReason | null {
      const { outcome, now } = ended;
      let began: StopReason | null = null;
      for (const reason of quotaReasons) if (quotas[reason].learn(ended, quotaVerdict(reason, ended), newest())) began = reason;
      const ofKey = keyVerdict(outcome);
      if (ofKey !== "unknown") isKeyVerified = ofKey === "over";
      if (key.learn(ended, ofKey, newest())) began = "unauthenticated";
      if (outcome.type !== "blocked") return began;
      if (now >= blockedUntil) began = "blocked";
      blockedUntil = now + blockMs;
      return began;
    },
    resume(): readonly QuotaReason[] {
      const ended = quotaReasons.filter((reason) => quotas[reason].get() !== null);
      for (const reason of quotaReasons) quotas[reason].end(newest());
      return ended;
    },
    /** Another key is not verified yet. */
    trustKey(isAnother: boolean): void {
      key.end(newest());
      if (isAnother) isKeyVerified = false;
    },
    isKeyVerified: (): boolean => isKeyVerified,
    state,
    resources: (): Readonly<Partial<Record<QuotaReason, string>>> =>
      Object.fromEntries(
        quotaReasons.flatMap((reason) => {
          const resource = quotas[reason].get()?.resource;
          return resource == null ? [] : [[reason, resource]];
        }),
      ),
    /** `until` in steady ms. */
    shared(reason: QuotaReason): StoredStop | null {
      const stop = quotas[reason].get();
      return stop && { resource: stop.resource, renewsAt: stop.renewsAt, until: stop.until };
    },
    adopt(reason: QuotaReason, stop: StoredStop | null): void {
      // The same object, so that a probe in flight still counts.
      quotas[reason].set(stop && Object.assign(quotas[reason].get() ?? { probeUntil: 0 }, stop));
    },
  };
}

export type Stops = ReturnType<typeof createStops>;

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
 * | probing | the probe gives up before it is sent, or takes 2 minutes | the next call is the probe |
 * | any | `resume`, SIGHUP, another plan | none |
 *
 * `until` is the renewal where it is certain. Otherwise a probe goes every hour, so a wrong assessment costs an hour.
 */
interface QuotaStop extends ProbedStop {
  /** The service's name for it; null without one. */
  readonly resource: string | null;
  /** Unix ms, because renewal is a date; null: not certain. */
  readonly renewsAt: number | null;
}

const hourMs = 3_600_000;
/** After a probe without a verdict. */
const unsettledMs = 5 * 60_000;

const createQuotaStop = () => createProbedStop<QuotaStop>(quotaStop, (stop, now) => ({ ...stop, until: now + unsettledMs, probeUntil: 0 }));

function quotaVerdict(reason: QuotaReason, { outcome, operation }: EndedCall): Verdict {
  if (outcome.type === "quota-used-up") return reasonOf(outcome.resource, operation) === reason ? "in-force" : "over";
  return outcome.type === "answered" ? "over" : "unknown";
}

/** The document names `apiCalls` only. An unknown resource stops the refused kind of call: each other kind costs one refusal. */
function reasonOf(resource: string | null, operation: CallOperation): QuotaReason {
  const name = resource?.toLowerCase() ?? "";
  if (name === "apicalls") return "quota";
  return name.startsWith("automation") ? "quota-runs" : `quota-${operation}`;
}

export function coveringReasons(operation: CallOperation): readonly QuotaReason[] {
  return ["quota", `quota-${operation}`];
}

function quotaStop({ outcome, now, wallNow }: EndedCall): QuotaStop {
  const { resource, serviceTime } = outcome.type === "quota-used-up" ? outcome : { resource: null, serviceTime: null };
  const { at, knownAt, isCertain } = assessRenewal(serviceTime, wallNow);
  const wait = knownAt - wallNow;
  // When a resource other than API calls renews is not documented.
  const isKnown = isCertain && resource?.toLowerCase() === "apicalls";
  return { resource, renewsAt: isKnown ? at : null, until: now + (isKnown ? wait : Math.min(wait, hourMs)), probeUntil: 0 };
}

function quotaUntil({ renewsAt, until, probeUntil }: QuotaStop, wallNow: number, toUnix: (at: number) => number): number {
  if (renewsAt !== null && renewsAt > wallNow) return renewsAt;
  // While a probe is in flight, the others wait for its answer.
  return toUnix(Math.max(until, probeUntil));
}

/*
 * A key is doubted after a 401, because bad keys block the whole address (messaging-service-api.md, "Authentication").
 *
 * | doubt | what happens | becomes |
 * |---|---|---|
 * | none | a 401 | doubt, the next try after 30 s |
 * | waiting | the wait is over and a call comes | probing: this call is the probe |
 * | probing | a 401 | waiting, for longer |
 * | probing | no answer, or the address is blocked | waiting, as long as before |
 * | probing | the probe gives up before it is sent, or takes 2 minutes | the next call is the probe |
 * | probing | any other answer | none |
 *
 * Calls that were in flight when a doubt began or ended change nothing. Times are steady ms.
 */
interface Doubt extends ProbedStop {
  readonly wait: number;
}

/** The last one repeats. */
const waitsMs = [30_000, 60_000, 120_000, 240_000, 480_000, 900_000] as const;

function doubtFrom(now: number, index: number): Doubt {
  const wait = Math.min(index, waitsMs.length - 1);
  return { wait, until: now + (waitsMs[wait] as number), probeUntil: 0 };
}

const createKeyDoubt = () =>
  createProbedStop<Doubt>(
    ({ now }, before) => doubtFrom(now, before === null ? 0 : before.wait + 1),
    ({ wait }, now) => doubtFrom(now, wait),
  );

function keyVerdict({ type }: CallOutcome): Verdict {
  if (type === "unauthenticated") return "in-force";
  return type === "unknown" || type === "not-sent" || type === "blocked" ? "unknown" : "over";
}
