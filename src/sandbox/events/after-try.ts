import { readRetryAfter } from "../clock.ts";
import type { Posted } from "../post.ts";

/** Milliseconds at speed 1. */
export interface EventRetry {
  /** One wait after each failure; after the last, one more failure is the end. */
  readonly waitsMs: readonly number[];
  readonly isTaken: (status: number) => boolean;
  /** The longest wait that `Retry-After` can ask for. */
  readonly longestMs: number;
}

/** The sandbox's choice: the document does not show the schedule ("Events", 6). */
export const usualEventRetry: EventRetry = {
  waitsMs: [1_000, 5_000, 30_000, 120_000, 600_000],
  longestMs: 600_000,
  isTaken: (status) => status >= 200 && status <= 299,
};

const minute = 60_000;
const hour = 60 * minute;
/** Meta takes only 200 for a success and repeats for 7 days; the times between are the sandbox's choice. */
export const metaRetry: EventRetry = {
  waitsMs: [1_000, 5_000, 30_000, 2 * minute, 10 * minute, hour, 3 * hour, 8 * hour, ...Array<number>(13).fill(12 * hour)],
  longestMs: 0,
  isTaken: (status) => status === 200,
};

type AfterTry =
  | { readonly status: "delivered" }
  | { readonly status: "failed"; readonly reason: string }
  | { readonly status: "waiting"; readonly waitMs: number; readonly reason: string };

/** The sandbox's choice: every answer but a success is tried again. `tries` is 1 for the first, `now` unix milliseconds. */
export function afterTry(answer: Posted, tries: number, retry: EventRetry, speed: number, now: number): AfterTry {
  if (answer.kind === "answered" && retry.isTaken(answer.status)) return { status: "delivered" };
  const reason = answer.kind === "answered" ? `answered ${answer.status}` : answer.reason;
  const planned = retry.waitsMs[tries - 1];
  if (planned === undefined) return { status: "failed", reason: `${reason}; given up after ${tries} ${tries === 1 ? "try" : "tries"}` };
  // What the receiver asks for is in its own seconds: not divided. The bound is ours: it is.
  const asked = answer.kind === "answered" ? readRetryAfter(answer.headers["retry-after"], now) : 0;
  return { status: "waiting", waitMs: Math.max(planned / speed, Math.min(asked, retry.longestMs / speed)), reason };
}
