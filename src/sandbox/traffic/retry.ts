import { growingWait } from "../../model/backoff.ts";
import { readRetryAfter } from "../clock.ts";

/** How a sender repeats a post that nothing accepted. The service's own schedule is not shown: this is the sandbox's choice. */
export interface SenderRetry {
  /** Tries in all, the first included. */
  readonly tries: number;
  /** Wait before the second try, in milliseconds; doubled each time. */
  readonly firstMs: number;
  /** No wait is longer, whatever Retry-After says. */
  readonly longestMs: number;
}

export const usualRetry: SenderRetry = { tries: 6, firstMs: 200, longestMs: 30_000 };

/** True for answers worth another try: the relay's own trouble (5xx). A 4xx stays a 4xx. */
export function isWorthRetry(status: number): boolean {
  return status >= 500;
}

/** Milliseconds to wait after try number `tried` (1 for the first). `retryAfter` is the header, in seconds or as a date. */
export function retryWait(retry: SenderRetry, tried: number, retryAfter: string | undefined, now: number): number {
  return Math.min(retry.longestMs, Math.max(growingWait(tried, retry.firstMs, retry.longestMs), readRetryAfter(retryAfter, now)));
}
