import type { StoredStop } from "../../model/budget.ts";
import type { SteadyTime } from "../../model/clock.ts";
import { growingWait } from "../../model/clock.ts";
import { type CallOperation, type CallOutcome, callOperations } from "../endpoints.ts";
import { localRefusal, type ServiceError } from "../errors.ts";
import { renewalOf } from "./caps.ts";

export type QuotaReason = "quota" | `quota-${CallOperation}`;
export const quotaReasons: readonly QuotaReason[] = [
  "quota",
  ...callOperations.map((operation) => `quota-${operation}` as const),
];

const probedReasons = [...quotaReasons, "unauthenticated"] as const;
type ProbedReason = (typeof probedReasons)[number];

/** `quota` stops all calls, `quota-…` those of an operation. */
export const stopReasons = [...probedReasons, "blocked"] as const;
export type StopReason = (typeof stopReasons)[number];

/** `unknown`: what the account's other processes call. */
export type Refusal = StopReason | "unknown";

/** Unix ms until which calls are refused. Null: not in force. */
export type StopState = Readonly<Record<StopReason, number | null>>;

/**
 * After `until`, one call probes whether it still holds, while the others are refused. Steady ms.
 */
interface Stop {
  until: number;
  /** When the probe in flight counts as lost. */
  probeUntil: number;
  /** The service's name of a quota; null without one. */
  readonly resource: string | null;
  /** Unix ms, because the renewal of a quota is a date; null: unknown. */
  readonly renewsAt: number | null;
  /** Refusals of a key in a row. */
  readonly repeats: number;
}

export type Probes = readonly Stop[];

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

/** What a call shows of a stop. */
type Verdict = "in-force" | "over" | "unknown";

interface StopRule {
  verdict(call: EndedCall, reason: ProbedReason): Verdict;
  /** As an answer shows it. */
  from(call: EndedCall, before: Stop | null): Stop;
}

function createStop(reason: ProbedReason, { verdict, from }: StopRule) {
  let stop: Stop | null = null;
  /** The newest call then. */
  let endedAt = 0;
  const end = (newest: number): void => {
    stop = null;
    endedAt = newest;
  };
  return {
    get: (): Stop | null => stop,
    set(next: Stop | null): void {
      stop = next;
    },
    end,
    /** True: the stop begins. Calls that were in flight when it began or ended change nothing. */
    learn(call: EndedCall, newest: number): boolean {
      const shown = verdict(call, reason);
      if (stop === null) {
        if (shown !== "in-force" || call.number <= endedAt) return false;
        stop = from(call, null);
        return true;
      }
      if (!call.probes.includes(stop) || call.now >= stop.probeUntil) return false;
      if (shown === "over") end(newest);
      else if (shown === "in-force") stop = from(call, stop);
      else stop.probeUntil = 0;
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
  const stops = Object.fromEntries(
    probedReasons.map((reason) => [
      reason,
      createStop(reason, reason === "unauthenticated" ? keyRule : quotaRule),
    ]),
  ) as Record<ProbedReason, ReturnType<typeof createStop>>;
  let isKeyVerified = false;
  let blockedUntil = 0;

  function untilOf(reason: ProbedReason): number | null {
    const stop = stops[reason].get();
    if (stop === null) return null;
    if (stop.renewsAt !== null && stop.renewsAt > time.toUnix(time.now())) return stop.renewsAt;
    // While a probe is in flight, the others wait for its answer.
    return time.toUnix(Math.max(stop.until, stop.probeUntil));
  }

  const covering = (operation: CallOperation): readonly ProbedReason[] => [
    ...coveringReasons(operation),
    "unauthenticated",
  ];

  /** Why a call is refused that probes only the stops given; null: it may go. */
  function refusing(operation: CallOperation, probes: Probes, now: number): StopReason | null {
    const inForce = covering(operation).find((reason) => {
      const stop = stops[reason].get();
      return stop !== null && !probes.includes(stop);
    });
    return inForce ?? (now < blockedUntil ? "blocked" : null);
  }

  function state(): StopState {
    const untils = Object.fromEntries(
      probedReasons.map((reason) => [reason, untilOf(reason)]),
    ) as Record<ProbedReason, number | null>;
    return { ...untils, blocked: time.now() < blockedUntil ? time.toUnix(blockedUntil) : null };
  }

  return {
    admit(operation: CallOperation): Probes | StopReason {
      const now = time.now();
      const probes = covering(operation).flatMap((reason) => {
        const stop = stops[reason].get();
        return stop !== null && now >= stop.until && now >= stop.probeUntil ? [stop] : [];
      });
      const reason = refusing(operation, probes, now);
      if (reason !== null) return reason;
      for (const stop of probes) stop.probeUntil = now + probeMs;
      return probes;
    },
    /** Why a waiting call is refused after all; null: it goes on waiting. */
    refusing: (operation: CallOperation, probes: Probes): StopReason | null =>
      refusing(operation, probes, time.now()),
    refusal(reason: Refusal): ServiceError {
      if (reason === "unknown") return localRefusal({ kind: "caps-unknown" });
      if (reason === "unauthenticated" || reason === "blocked")
        return localRefusal({ kind: reason });
      return localRefusal({
        kind: "quota",
        cause: null,
        until: untilOf(reason) ?? time.toUnix(time.now()),
      });
    },
    leave(probes: Probes): void {
      for (const stop of probes) stop.probeUntil = 0;
    },
    /** Returns the stop that began with it. */
    learn(ended: EndedCall): StopReason | null {
      const { outcome, now } = ended;
      let began: StopReason | null = null;
      for (const reason of probedReasons) if (stops[reason].learn(ended, newest())) began = reason;
      const ofKey = keyRule.verdict(ended, "unauthenticated");
      if (ofKey !== "unknown") isKeyVerified = ofKey === "over";
      if (outcome.type !== "blocked") return began;
      if (now >= blockedUntil) began = "blocked";
      blockedUntil = now + blockMs;
      return began;
    },
    resume(): readonly QuotaReason[] {
      const ended = quotaReasons.filter((reason) => stops[reason].get() !== null);
      for (const reason of quotaReasons) stops[reason].end(newest());
      return ended;
    },
    /** Not verified yet. */
    takeKey(): void {
      stops.unauthenticated.end(newest());
      isKeyVerified = false;
    },
    isKeyVerified: (): boolean => isKeyVerified,
    state,
    resources: (): Readonly<Partial<Record<StopReason, string>>> =>
      Object.fromEntries(
        quotaReasons.flatMap((reason) => {
          const resource = stops[reason].get()?.resource;
          return resource == null ? [] : [[reason, resource]];
        }),
      ),
    /** `until` in steady ms. */
    shared(reason: QuotaReason): StoredStop | null {
      const stop = stops[reason].get();
      return stop && { resource: stop.resource, renewsAt: stop.renewsAt, until: stop.until };
    },
    adopt(reason: QuotaReason, stop: StoredStop | null): void {
      // The same object, so that a probe in flight still counts.
      stops[reason].set(
        stop && Object.assign(stops[reason].get() ?? { ...noDetails, until: 0 }, stop),
      );
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
 * | probing | no answer, a per-minute 429, a refused key or address; or it gives up, or takes 2 minutes | the next call is the probe |
 * | any | `resume`, SIGHUP, another plan | none |
 *
 * `until` is an hour later, or the renewal if that is sooner: clocks differ, and somebody may
 * change the plan.
 */
const hourMs = 3_600_000;

const noDetails = { probeUntil: 0, resource: null, renewsAt: null, repeats: 0 } as const;

const quotaRule: StopRule = {
  verdict({ outcome, operation }, reason) {
    if (outcome.type === "quota-used-up")
      return reasonOf(outcome.resource, operation) === reason ? "in-force" : "over";
    return outcome.type === "answered" ? "over" : "unknown";
  },
  from({ outcome, now, wallNow }) {
    const resource = outcome.type === "quota-used-up" ? outcome.resource : null;
    const { at, knownAt } = renewalOf(wallNow);
    // When a resource other than API calls renews is not documented.
    const renewsAt = resource?.toLowerCase() === "apicalls" ? at : null;
    return { ...noDetails, resource, renewsAt, until: now + Math.min(knownAt - wallNow, hourMs) };
  },
};

/**
 * The document names `apiCalls` only. An unknown resource stops the refused kind of call: each
 * other kind costs one refusal.
 */
function reasonOf(resource: string | null, operation: CallOperation): QuotaReason {
  const name = resource?.toLowerCase() ?? "";
  if (name === "apicalls") return "quota";
  return name.startsWith("automation") ? "quota-runs" : `quota-${operation}`;
}

export function coveringReasons(operation: CallOperation): readonly QuotaReason[] {
  return ["quota", `quota-${operation}`];
}

/*
 * A key is doubted after a 401, because bad keys block the whole address (messaging-service-api.md,
 * "Authentication").
 *
 * | doubt | what happens | becomes |
 * |---|---|---|
 * | none | a 401 | doubt, the next try after 30 s |
 * | waiting | the wait is over and a call comes | probing: this call is the probe |
 * | probing | a 401 | waiting, for longer |
 * | probing | no answer, or the address is blocked; or it gives up, or takes 2 minutes | the next call is the probe |
 * | probing | any other answer | none |
 *
 * Calls that were in flight when a doubt began or ended change nothing. Times are steady ms.
 */
const keyRule: StopRule = {
  verdict({ outcome: { type } }) {
    if (type === "unauthenticated") return "in-force";
    return type === "unknown" || type === "not-sent" || type === "blocked" ? "unknown" : "over";
  },
  from({ now }, before) {
    const repeats = (before?.repeats ?? 0) + 1;
    return { ...noDetails, repeats, until: now + growingWait(repeats, 30_000, 900_000) };
  },
};
