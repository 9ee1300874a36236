import { readRetryAfter } from "../clock.ts";

/** How one post fared. `cut`: the sandbox closed meanwhile, so that nothing is known. */
export type Answer =
  | { readonly kind: "answered"; readonly status: number; readonly retryAfter: string | undefined }
  | { readonly kind: "unanswered"; readonly reason: string }
  | { readonly kind: "cut" };

/** When a failed delivery is tried again. Times in milliseconds of the sandbox's clock, at speed 1. */
export interface EventRetry {
  /** Wait after the first failure, after the second, …; after the last of them one more failure is the end. */
  readonly waitsMs: readonly number[];
  readonly isTaken: (status: number) => boolean;
  /** `Retry-After` makes a wait longer, up to this. */
  readonly longestMs: number;
}

/** "Events", 6: the retry schedule is not shown; this one is the sandbox's choice. */
export const usualEventRetry: EventRetry = {
  waitsMs: [1_000, 5_000, 30_000, 120_000, 600_000],
  longestMs: 600_000,
  isTaken: (status) => status >= 200 && status <= 299,
};

const minute = 60_000;
const hour = 60 * minute;
/** Meta takes nothing but 200 for a success, and repeats for 7 days. The times between are the sandbox's choice. */
export const metaRetry: EventRetry = {
  waitsMs: [1_000, 5_000, 30_000, 2 * minute, 10 * minute, hour, 3 * hour, 8 * hour, ...Array<number>(13).fill(12 * hour)],
  longestMs: 0,
  isTaken: (status) => status === 200,
};

export type AfterTry =
  | { readonly status: "delivered" }
  | { readonly status: "failed"; readonly reason: string }
  | { readonly status: "waiting"; readonly waitMs: number; readonly reason: string };

/**
 * Decides after try number `tries` (1 for the first). Every other answer is a failure, redirects too, and
 * every failure is tried again: the sandbox's choice. `now` in unix milliseconds of the receiver's time.
 */
export function afterTry(answer: Exclude<Answer, { kind: "cut" }>, tries: number, retry: EventRetry, speed: number, now: number): AfterTry {
  if (answer.kind === "answered" && retry.isTaken(answer.status)) return { status: "delivered" };
  const reason = answer.kind === "answered" ? `answered ${answer.status}` : answer.reason;
  const planned = retry.waitsMs[tries - 1];
  if (planned === undefined) return { status: "failed", reason: `${reason}; given up after ${tries} ${tries === 1 ? "try" : "tries"}` };
  // What the receiver asks for is in its own seconds: not divided. The bound is ours: it is.
  const asked = answer.kind === "answered" ? readRetryAfter(answer.retryAfter, now) : 0;
  return { status: "waiting", waitMs: Math.max(planned / speed, Math.min(asked, retry.longestMs / speed)), reason };
}
