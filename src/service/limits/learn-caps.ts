import type { CallCap } from "../admission.ts";
import { type AccountState, holdToPlan, keyOf, type LearnedCap } from "./account-state.ts";
import { capAnswered, holdCap } from "./cap-hold.ts";
import type { Caps } from "./caps.ts";
import type { EndedCall, Identity } from "./stops.ts";

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
