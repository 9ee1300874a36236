import { growingWait, withJitter } from "../model/backoff.ts";
import type { ServiceError } from "./errors.ts";

export interface RetrySettings {
  /** Attempts in all, including the first. */
  readonly attempts: number;
  /** Longest first wait, doubled each time, in milliseconds. */
  readonly firstMs: number;
  readonly longestMs: number;
  /**
   * Whether to retry a send that the provider rejected with this text (502). The document says that some reasons are
   * temporary, but shows none. Default: never, because each attempt counts against the messages cap.
   */
  readonly isTemporary: (text: string) => boolean;
}

export const defaultRetry: RetrySettings = { attempts: 4, firstMs: 1000, longestMs: 60_000, isTemporary: () => false };

/** The wait without a `Retry-After`: caps are counted in one-minute windows. */
const windowMs = 60_000;
/** A cap is "released by itself" within its window. A longer `Retry-After` ends the call with its error. */
const longestRetryAfterMs = 10 * 60_000;

/**
 * How long to wait before the next attempt, in milliseconds; null: do not retry. By the document's "Safe retries" and
 * "Client guidance", only 500, a temporary 502, network errors and a per-minute 429 are retried, and only where a
 * second call cannot act twice.
 *
 * @param attempt attempts made so far, from 1
 * @param idempotent whether a second call does no more than the first
 * @param random from 0 up to 1
 */
export function retryWait(
  error: ServiceError,
  attempt: number,
  idempotent: boolean,
  settings: RetrySettings,
  random: number,
): number | null {
  if (attempt >= settings.attempts) return null;
  const { failure } = error;
  if (failure.kind === "rate-limited") return afterCap(failure.retryAfterMs ?? windowMs, attempt, settings, random);
  if (!(idempotent || error.outcome === "not-done") || !isTransient(error, idempotent, settings)) return null;
  const wait = withJitter(growingWait(attempt, settings.firstMs, settings.longestMs), random);
  const asked = failure.kind === "unexpected" ? (failure.retryAfterMs ?? 0) : 0;
  return asked > longestRetryAfterMs ? null : Math.max(wait, asked);
}

/** Whether the error may be temporary. */
function isTransient({ failure, status, text }: ServiceError, idempotent: boolean, { isTemporary }: RetrySettings): boolean {
  switch (failure.kind) {
    case "unexpected":
    case "timeout":
      return true;
    case "network":
      return failure.code !== "closed";
    case "rejected":
      // A call that sends nothing was not rejected for its message.
      return idempotent || isTemporary(text ?? "");
    case "undocumented":
      // A proxy's own 502: it could not reach the service, or lost its answer.
      return status === 502;
    default:
      return false;
  }
}

/** Never less than the requested wait. Grows with each attempt by at most `longestMs`; jitter only adds. */
function afterCap(retryAfterMs: number, attempt: number, { firstMs, longestMs }: RetrySettings, random: number): number | null {
  if (retryAfterMs > longestRetryAfterMs) return null;
  const grown = Math.min(longestMs, Math.max(retryAfterMs, firstMs) * (2 ** (attempt - 1) - 1));
  return Math.round(retryAfterMs + grown + random * firstMs);
}
