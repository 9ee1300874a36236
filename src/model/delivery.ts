import { type RedisFaultKind, redisFaultKinds } from "./redis-fault.ts";

/**
 * The states of a delivery.
 *
 * | state | meaning | moves to |
 * |---|---|---|
 * | `waiting` | owed, goes out when `nextAt` has come | `delivered`, `dead`, `waiting` (after a failed attempt) |
 * | `held` | owed, but an earlier delivery of the same message on the same route is still open | `waiting` |
 * | `delivered` | the destination took it | `waiting` (replay) |
 * | `dead` | out of attempts, or refused for good: the dead letter | `waiting` (retry, replay) |
 */
export const deliveryStates = ["waiting", "held", "delivered", "dead"] as const;
export type DeliveryState = (typeof deliveryStates)[number];

/** What came of one attempt to deliver, as data: what follows from it is decided by `decide` in deliver/. */
export type AttemptResult =
  | { readonly kind: "answered"; readonly status: number; readonly retryAfterMs: number | null }
  /** A queue or a stream has it. */
  | { readonly kind: "taken" }
  | { readonly kind: "failed"; readonly error: AttemptError };

/** What can come of one to a URL. */
export type UrlResult = Exclude<AttemptResult, { kind: "taken" }>;

/**
 * Why a URL gave no answer. `blocked` is the guard against private addresses, before a byte was sent; `internal` is a fault
 * of the relay, of any destination.
 */
const urlErrors = ["timeout", "connect", "dns", "reset", "tls", "blocked", "protocol", "aborted", "internal"] as const;

/**
 * Why an attempt failed without a status. Of a queue or a stream: what is wrong with its Redis, or `refused`, when
 * Redis is well and does not take this (a key of another type).
 */
export const attemptErrors = [...urlErrors, ...redisFaultKinds, "refused"] as const;
export type AttemptError = (typeof attemptErrors)[number];

/** True when the error says that the whole destination can take nothing now: no delivery is to blame, nor given up for it. */
export function isOutage(error: AttemptError): error is RedisFaultKind {
  return (redisFaultKinds as readonly string[]).includes(error);
}

/** One attempt as it is kept. */
export interface Attempt {
  /** 1 for the first. */
  readonly number: number;
  /** Unix milliseconds at which it began. */
  readonly at: number;
  /** How long it took, in milliseconds. */
  readonly tookMs: number;
  readonly result: AttemptResult;
  /** The first 4 KiB of the answer's body, or the text of the error. */
  readonly response: Buffer | null;
}

/** Longest response kept with an attempt, in bytes (DESIGN.md, "deliver"). */
export const keptResponseBytes = 4096;
