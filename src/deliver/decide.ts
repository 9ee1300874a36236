import {
  type AttemptResult,
  type BreakerState,
  isOutage,
  type Settled,
  type StoredDelivery,
  type UrlResult,
} from "../model/delivery.ts";
import type { AttemptOutcome, OutgoingDelivery } from "./destinations/destination.ts";
import type { RetrySettings } from "./settings.ts";

/**
 * The decision after an attempt.
 *
 * | kind | when | the delivery |
 * |---|---|---|
 * | `delivered` | 2xx, or accepted by a queue or stream | `delivered` |
 * | `retry` | the Redis of a queue or stream is unavailable | `waiting` until `at`; the attempt does not count |
 * | `retry` | any other answer or failure, attempts left | `waiting` until `at` |
 * | `dead` | any other answer or failure, attempts used up | `dead` |
 * | `stop` | 410 | `waiting`; the destination is stopped |
 * | `interrupted` | aborted by the relay's shutdown | `waiting`, as if the attempt had not been made |
 *
 * `pauseUntil` pauses the whole destination.
 */
export type Decision =
  | { readonly kind: "delivered" }
  | {
      readonly kind: "retry";
      readonly at: number;
      readonly pauseUntil: number | null;
      readonly spares?: boolean;
    }
  | { readonly kind: "dead"; readonly reason: string; readonly pauseUntil?: number | null }
  | { readonly kind: "stop"; readonly reason: string }
  | { readonly kind: "interrupted" };

const delivered: Decision = { kind: "delivered" };
const interrupted: Decision = { kind: "interrupted" };

/**
 * Short, because the breaker paces the attempts, and what waits goes out once its probe succeeds.
 */
const longestOutageWaitMs = 5_000;

/** Attempt number `attempt` (1 for the first) ended at `now`. `random` gives [0, 1). */
export function decide(
  result: AttemptResult,
  attempt: number,
  retry: RetrySettings,
  now: number,
  random: () => number,
): Decision {
  if (result.kind === "failed" && result.error === "aborted") return interrupted;
  if (result.kind === "taken") return delivered;
  if (result.kind === "answered" && result.status >= 200 && result.status < 300) return delivered;
  // In Standard Webhooks, 410 ends the subscription. The delivery itself is fine and stays.
  if (result.kind === "answered" && result.status === 410)
    return { kind: "stop", reason: "the destination answered 410 (gone)" };

  // The delivery itself is fine: none must go dead in an hour without Redis.
  if (result.kind === "failed" && isOutage(result.error)) {
    const soon = Math.min(retry.schedule[1] ?? longestOutageWaitMs, longestOutageWaitMs);
    return {
      kind: "retry",
      at: now + spread(soon, retry.jitter, random),
      pauseUntil: null,
      spares: true,
    };
  }
  const retryAfter = result.kind === "answered" ? (result.retryAfterMs ?? 0) : 0;
  const pauses = result.kind === "answered" && result.status === 429 && retryAfter > 0;
  const pauseUntil = pauses ? now + retryAfter : null;
  const wait = retry.schedule[attempt];
  if (wait === undefined)
    return {
      kind: "dead",
      reason: `out of attempts (${attempt}): ${lastResult(result)}`,
      pauseUntil,
    };
  // The later of the two: a downstream that answers `Retry-After: 1` for ten minutes must not use
  // up a schedule of days in seconds. A pause already holds the delivery; once an operator ends it,
  // only the schedule counts.
  const at = now + Math.max(spread(wait, retry.jitter, random), pauses ? 0 : retryAfter);
  return { kind: "retry", at, pauseUntil };
}

export type SettlingDecision = Exclude<Decision, { kind: "interrupted" }>;

/** `now`: unix ms. */
export function settledBy(decision: SettlingDecision, now: number): Settled {
  if (decision.kind === "delivered") return { to: "delivered" };
  if (decision.kind === "dead") return { to: "dead", reason: decision.reason };
  if (decision.kind === "stop") return { to: "waiting", nextAt: now };
  return {
    to: "waiting",
    nextAt: decision.at,
    ...(decision.spares === true ? { spares: true } : {}),
  };
}

/** Unix ms; null when it does not pause the destination. */
export function pauseOf(decision: Decision): number | null {
  return "pauseUntil" in decision ? (decision.pauseUntil ?? null) : null;
}

function spread(wait: number, jitter: number, random: () => number): number {
  return Math.round(wait * (1 + jitter * (2 * random() - 1)));
}

function lastResult(result: UrlResult): string {
  return result.kind === "answered"
    ? `the last was answered ${result.status}`
    : `the last failed (${result.error})`;
}

export interface AttemptReport {
  readonly delivery: StoredDelivery;
  readonly outgoing: OutgoingDelivery;
  readonly outcome: AttemptOutcome;
  readonly decision: Decision;
}

export interface LaneHooks {
  /** Must not throw. */
  composed?(delivery: StoredDelivery, outgoing: OutgoingDelivery): OutgoingDelivery;
  attempted(report: AttemptReport): void;
  breakerMoved(route: string, state: BreakerState): void;
  stopped(route: string, reason: string): void;
  /** `until`: unix ms. */
  paused(route: string, until: number): void;
  storeFailed(route: string, error: unknown): void;
  /** The relay itself failed on this delivery. */
  failed(delivery: StoredDelivery, stage: FailedStage, error: unknown): void;
}

export type FailedStage = "compose" | "send" | "report" | "settle";
