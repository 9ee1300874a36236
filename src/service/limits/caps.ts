import { growingWait } from "../../model/backoff.ts";
import type { CallCap } from "../admission.ts";
import type { Plan } from "../settings.ts";
import { type AccountState, type EndedCall, type HoldState, keyOf } from "./account.ts";

/** Calls per minute, by cap. */
export type Caps = Readonly<Record<CallCap, number>>;

/** messaging-service-api.md, "Per-minute caps". */
export const planCaps: Readonly<Record<Plan, Caps>> = {
  escala: { requests: 300, messages: 60 },
  enterprise: { requests: 1200, messages: 300 },
};

/** Identifies a plan in the account state. */
export function planId({ requests, messages }: Caps): string {
  return `${requests}/${messages}`;
}

/** API calls per month; null: unlimited (messaging-service-api.md, "Monthly quotas and maximums"). */
export const monthlyCalls: Readonly<Record<Plan, number | null>> = { escala: 300_000, enterprise: null };

/**
 * The relay's share of the caps, rounded down and at least 1. Messages never exceed requests, of which they are a part.
 */
export function shareOf(caps: Caps, share: number): Caps {
  // A rounding error leaves a product such as 300 * 0.57 just below the whole number.
  const part = (cap: number): number => Math.max(1, Math.floor(cap * share + 1e-9));
  const requests = part(caps.requests);
  return { requests, messages: Math.min(part(caps.messages), requests) };
}

/** The part of the room for calls other than sends that polls leave to interactive ones. */
const leftToInteractive = 0.1;

/**
 * How much of the requests cap calls other than sends may use. `interactive` and `poll` together: what the messages cap cannot need
 * (requests − messages), so that they never take room from sends. `poll` alone: nine tenths of that, so that an interactive
 * call need not wait for a minute full of polls. Each at least 1: with a tiny share, a send may have to wait for one poll.
 */
export function quotasOf({ requests, messages }: Caps): { readonly interactive: number; readonly poll: number } {
  const interactive = Math.max(1, requests - messages);
  return { interactive, poll: Math.max(1, Math.floor(interactive * (1 - leftToInteractive) + 1e-9)) };
}

/** Updates holds and the key's validity after a call. `newest`: the number of the call dispatched last. */
export function learnCaps(
  state: AccountState,
  newest: number,
  { call: { number }, outcome, now }: EndedCall,
  cap: CallCap,
  id: string,
): void {
  const key = keyOf(state, id);
  if (outcome.type === "unauthenticated") key.isProven = false;
  if (outcome.type === "answered") {
    key.isProven = true;
    capAnswered(state.holds.requests, number);
    if (cap === "messages") capAnswered(state.holds.messages, number);
  }
  if (outcome.type !== "rate-limited") return;
  key.isProven = true;
  for (const held of outcome.cap === null ? (["requests", "messages"] as const) : [outcome.cap]) {
    holdCap(state.holds[held], number, newest, now, outcome.retryAfterMs);
  }
}

/** The wait without a header: caps are one-minute windows "released by themselves". */
const minuteMs = 60_000;
/** Longest wait that doubling leads to. */
const longestGrownMs = 300_000;
/** Shorter waits would hammer the service; a longer `Retry-After` cannot concern a cap per minute. */
const shortestMs = 1_000;
const longestMs = 3_600_000;

/**
 * A 429: the cap is used up although the relay kept to its share, because others use the account too. `call` is its number,
 * `newest` that of the call dispatched last; `retryAfterMs` null: no header. Times are steady ms.
 *
 * Holds the cap for as long as the header says, twice that at the next 429 in a row, and so on up to 5 minutes ("grow the
 * wait on repeated failures", messaging-service-api.md, "Responses at the limit"). Calls that were in flight when the hold
 * began neither extend the growth by a 429 nor end it by another answer.
 */
function holdCap(hold: HoldState, call: number, newest: number, now: number, retryAfterMs: number | null): void {
  const wait = Math.min(Math.max(retryAfterMs ?? minuteMs, shortestMs), longestMs);
  if (call <= hold.since) {
    hold.until = Math.max(hold.until, now + wait);
    return;
  }
  hold.until = now + Math.max(wait, growingWait(hold.inARow + 1, wait, longestGrownMs));
  hold.inARow += 1;
  hold.since = newest;
}

/** Another answer: ends the growth if the call was dispatched after the hold began. */
function capAnswered(hold: HoldState, call: number): void {
  if (call > hold.since) hold.inARow = 0;
}
