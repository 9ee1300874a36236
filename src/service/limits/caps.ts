import { growingWait } from "../../event/backoff.ts";
import type { CallCap } from "../admission.ts";
import { type AccountState, type EndedCall, type HoldState, holdToPlan, type Identity, keyOf, type LearnedCap } from "./account.ts";

/** The plans that have an API at all (messaging-service-api.md, "Limits"). */
export type Plan = "escala" | "enterprise";

/** Calls a minute, by cap. */
export type Caps = Readonly<Record<CallCap, number>>;

/** messaging-service-api.md, "Per-minute caps". */
export const planCaps: Readonly<Record<Plan, Caps>> = {
  escala: { requests: 300, messages: 60 },
  enterprise: { requests: 1200, messages: 300 },
};

/** Tells plans from one another in what is learned of an account. */
export function planId({ requests, messages }: Caps): string {
  return `${requests}/${messages}`;
}

/** API calls a month; null: unlimited (messaging-service-api.md, "Monthly quotas and maximums"). */
export const monthlyCalls: Readonly<Record<Plan, number | null>> = { escala: 300_000, enterprise: null };

/**
 * The share of the caps that is ours, rounded down and at least 1. The one of messages is never more than
 * that of all requests, of which they are a part.
 */
export function shareOf(caps: Caps, share: number): Caps {
  // A product such as 300 * 0.57 falls short of its whole number by a rounding error.
  const part = (cap: number): number => Math.max(1, Math.floor(cap * share + 1e-9));
  const requests = part(caps.requests);
  return { requests, messages: Math.min(part(caps.messages), requests) };
}

/** Of what others than sends may use, the tenth that polls leave to those whom somebody waits for. */
const leftToAsks = 0.1;

/**
 * How much of the requests cap those may use that are no sends: `ask` and `poll` together what the messages cap cannot
 * need (requests − messages), so that they never take from sends; `poll` alone nine tenths of that, so that an ask
 * need not wait for a minute full of polls to pass. Each at least 1: with a share so small that nothing is left over,
 * a send may have to wait for one poll.
 */
export function quotasOf({ requests, messages }: Caps): { readonly ask: number; readonly poll: number } {
  const ask = Math.max(1, requests - messages);
  return { ask, poll: Math.max(1, Math.floor(ask * (1 - leftToAsks) + 1e-9)) };
}

/**
 * A reported cap below this share of the plan's counts as this much. One strange header cannot throttle an account to a
 * standstill, and a cap that is really smaller is kept by the waits that 429s ask for.
 */
const floorShare = 0.1;
/** A reported cap doubles so often until it is the plan's again, because the service never reports that it was raised. */
const doubleEveryMs = 15 * 60_000;

/** What a call's end tells of the caps: holds, smaller limits, and that the key is good; to be called in a change. */
export function learnCaps(
  state: AccountState,
  newest: number,
  { call: { number }, outcome, now }: EndedCall,
  cap: CallCap,
  planned: Caps,
  { plan, key: id }: Identity,
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
  // Of a `POST /messages` the answer may not tell which cap it was. Either way messages cannot be more than its
  // limit, because each counts against both.
  const lowered = outcome.cap ?? cap;
  const { limit } = outcome;
  holdToPlan(state, plan);
  if (limit === null || limit < 1) return;
  const isLower = limit < grantedCap(state.granted[lowered], planned[lowered], now);
  if (isLower || outcome.cap !== null) state.granted[lowered] = limit < planned[lowered] ? { limit, at: now } : null;
}

/** What the service grants at `now` (steady ms): as planned, or fewer when one of its answers said so. */
export function grantedCaps({ plan, granted }: AccountState, planned: Caps, own: Identity, now: number): Caps {
  if (plan !== own.plan) return planned;
  const requests = grantedCap(granted.requests, planned.requests, now);
  const messages = grantedCap(granted.messages, planned.messages, now);
  // Reads and polls get only what sends cannot need, so messages leave them half of a smaller cap of requests.
  return { requests, messages: requests < planned.requests ? Math.min(messages, Math.max(1, Math.floor(requests / 2))) : messages };
}

function grantedCap(learned: LearnedCap | null, planned: number, now: number): number {
  if (learned === null) return planned;
  const doublings = Math.floor(Math.max(0, now - learned.at) / doubleEveryMs);
  return Math.min(planned, Math.max(learned.limit, Math.ceil(planned * floorShare)) * 2 ** doublings);
}

/** One-minute windows "released by themselves": without a header, one is waited for. */
const minuteMs = 60_000;
/** Growth ends here. */
const longestGrownMs = 300_000;
/** Shorter waits would hammer, and a longer `Retry-After` cannot be meant for a cap per minute. */
const shortestMs = 1_000;
const longestMs = 3_600_000;

/**
 * A 429: the service said that the cap is used up although we kept to our share; others use the account too. `call` is
 * its number, `newest` that of the call let go last; `retryAfterMs` null: the answer had none. Times are steady ms.
 *
 * Holds for as long as the header says, twice that at the next 429 in a row, and so on up to 5 minutes ("grow the
 * wait on repeated failures", messaging-service-api.md, "Responses at the limit"). Calls that were under way when the
 * hold began tell nothing new: neither do their 429s make it grow, nor do their answers end the growth.
 */
function holdCap(hold: HoldState, call: number, newest: number, now: number, retryAfterMs: number | null): void {
  const asked = Math.min(Math.max(retryAfterMs ?? minuteMs, shortestMs), longestMs);
  if (call <= hold.since) {
    hold.until = Math.max(hold.until, now + asked);
    return;
  }
  hold.until = now + Math.max(asked, growingWait(hold.inARow + 1, asked, longestGrownMs));
  hold.inARow += 1;
  hold.since = newest;
}

/** Another answer: the cap is no longer used up, if the call was let go after the hold. */
function capAnswered(hold: HoldState, call: number): void {
  if (call > hold.since) hold.inARow = 0;
}
