import type { HoldState } from "./account-state.ts";

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
export function holdCap(hold: HoldState, call: number, newest: number, now: number, retryAfterMs: number | null): void {
  const asked = Math.min(Math.max(retryAfterMs ?? minuteMs, shortestMs), longestMs);
  if (call <= hold.since) {
    hold.until = Math.max(hold.until, now + asked);
    return;
  }
  hold.until = now + Math.max(asked, Math.min(asked * 2 ** hold.inARow, longestGrownMs));
  hold.inARow += 1;
  hold.since = newest;
}

/** Another answer: the cap is no longer used up, if the call was let go after the hold. */
export function capAnswered(hold: HoldState, call: number): void {
  if (call > hold.since) hold.inARow = 0;
}
