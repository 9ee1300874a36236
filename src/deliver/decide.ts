import type { AttemptResult } from "../event/delivery.ts";
import type { RetrySettings } from "./settings.ts";

/**
 * What follows from an attempt.
 *
 * | kind | when | the delivery |
 * |---|---|---|
 * | `delivered` | 2xx | `delivered` |
 * | `retry` | any other answer or failure, attempts left | `waiting` until `at` |
 * | `dead` | any other answer or failure, attempts used up | `dead` |
 * | `stop` | 410 | `waiting`; the destination is stopped |
 * | `again` | aborted by our own shutdown | `waiting`, as if the attempt had not been |
 *
 * `at` and `pauseUntil` are unix milliseconds; `pauseUntil` holds the whole destination.
 */
export type Decision =
  | { readonly kind: "delivered" }
  | { readonly kind: "retry"; readonly at: number; readonly pauseUntil: number | null }
  | { readonly kind: "dead"; readonly reason: string }
  | { readonly kind: "stop"; readonly reason: string }
  | { readonly kind: "again" };

/**
 * Decides what follows from attempt number `attempt` (1 for the first) that ended at `now` (unix
 * milliseconds). Pure; `random` gives [0, 1).
 */
export function decide(_result: AttemptResult, _attempt: number, _retry: RetrySettings, _now: number, _random: () => number): Decision {
  throw new Error("not written yet");
}
