import type { CallCap } from "../admission.ts";
import { type AccountState, holdToPlan, keyOf } from "./account-state.ts";
import { capAnswered, holdCap } from "./cap-hold.ts";
import type { Caps } from "./caps.ts";
import type { EndedCall, Identity } from "./stops.ts";

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
  if (limit !== null && limit >= 1 && limit < (state.granted[lowered] ?? planned[lowered])) state.granted[lowered] = limit;
}

/** What the service grants: as planned, or fewer when one of its answers said so. */
export function grantedCaps({ plan, granted }: AccountState, planned: Caps, own: Identity): Caps {
  if (plan !== own.plan) return planned;
  return { requests: granted.requests ?? planned.requests, messages: granted.messages ?? planned.messages };
}
