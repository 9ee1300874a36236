import type { CallCap } from "../service/admission.ts";
import type { LimiterState } from "../service/limits/limiter-state.ts";

/** One-minute windows (messaging-service-api.md, "Per-minute caps"). */
const windowMs = 60_000;

/**
 * In about how many ms one more send might find room, for `Retry-After`: after those that wait, at the pace of
 * the cap, and not while it is held; at least a second, and a window at most beyond a hold.
 */
export function untilRoom(state: LimiterState | undefined, cap: CallCap, now: number): number {
  if (state === undefined) return windowMs;
  const { caps } = state;
  const held = Math.max(caps.requests.heldUntil ?? 0, caps[cap].heldUntil ?? 0) - now;
  const { waiting, limit } = caps[cap];
  const turn = ((waiting.send + 1) * windowMs) / Math.max(limit, 1);
  return Math.max(held, 0) + Math.min(Math.max(turn, 1_000), windowMs);
}
