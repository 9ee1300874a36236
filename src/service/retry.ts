import { growingWait, withJitter } from "../event/backoff.ts";
import type { ServiceError } from "./errors.ts";

export interface RetrySettings {
  /** Attempts in all, the first one included. */
  readonly attempts: number;
  /** Longest first wait, doubled each time, in milliseconds. */
  readonly firstMs: number;
  readonly longestMs: number;
  /**
   * Whether a send that the provider rejected with this text (502) is worth another attempt. The document says that some
   * reasons are temporary and others concern the provider account, and shows neither. By default none is: each attempt
   * takes one of the messages that the cap allows in a minute.
   */
  readonly isTemporary: (text: string) => boolean;
}

export const defaultRetry: RetrySettings = { attempts: 4, firstMs: 1000, longestMs: 60_000, isTemporary: () => false };

/** Caps are counted in one-minute windows: that long without a `Retry-After`. */
const windowMs = 60_000;
/** A cap is "released by itself" within its window. Who is asked to wait longer than this gets the error and the time instead. */
const longestRetryAfterMs = 10 * 60_000;

/**
 * How long to wait before the next attempt, in milliseconds; null: not again. By the document's "Safe
 * retries" and "Client guidance": only 500, a temporary 502, network errors, and a per-minute 429, which did
 * nothing; and never where something may have been done that a second call would do twice.
 *
 * @param attempt how many have been made, from 1
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
  if (!(idempotent || error.outcome === "not-done") || !mayPass(error, idempotent, settings)) return null;
  const wait = withJitter(growingWait(attempt, settings.firstMs, settings.longestMs), random);
  const asked = failure.kind === "unexpected" ? (failure.retryAfterMs ?? 0) : 0;
  return asked > longestRetryAfterMs ? null : Math.max(wait, asked);
}

/** Whether the trouble may be over by itself. */
function mayPass({ failure, status, text }: ServiceError, idempotent: boolean, { isTemporary }: RetrySettings): boolean {
  switch (failure.kind) {
    case "unexpected":
    case "timeout":
      return true;
    case "network":
      return failure.code !== "closed";
    case "rejected":
      // What rejects a call that sends nothing is no provider's opinion of a message.
      return idempotent || isTemporary(text ?? "");
    case "undocumented":
      // A proxy's own 502: the service could not be reached, or its answer was lost.
      return status === 502;
    default:
      return false;
  }
}

/** At least what was asked for, always; growing with each further attempt, by at most `longestMs`; spread upwards only. */
function afterCap(retryAfterMs: number, attempt: number, { firstMs, longestMs }: RetrySettings, random: number): number | null {
  if (retryAfterMs > longestRetryAfterMs) return null;
  const grown = Math.min(longestMs, Math.max(retryAfterMs, firstMs) * (2 ** (attempt - 1) - 1));
  return Math.round(retryAfterMs + grown + random * firstMs);
}
