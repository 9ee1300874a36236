/** A cap that the service said is used up although we kept to our share: others use the account too. */
export interface CapHold {
  /** Steady ms before which no call of the cap is let go. */
  until(): number;
  /** A 429. `call` is its number, `newest` that of the call let go last. `retryAfterMs` null: the answer had none. */
  refused(call: number, newest: number, now: number, retryAfterMs: number | null): void;
  /** Another answer: the cap is no longer used up, if the call was let go after the hold. */
  answered(call: number): void;
}

/** One-minute windows "released by themselves": without a header, one is waited for. */
const minuteMs = 60_000;
/** Growth ends here. */
const longestGrownMs = 300_000;
/** Shorter waits would hammer, and a longer `Retry-After` cannot be meant for a cap per minute. */
const shortestMs = 1_000;
const longestMs = 3_600_000;

/**
 * Holds for as long as the header says, twice that at the next 429 in a row, and so on up to 5 minutes ("grow the
 * wait on repeated failures", messaging-service-api.md, "Responses at the limit"). Calls that were under way when the
 * hold began tell nothing new: neither do their 429s make it grow, nor do their answers end the growth.
 */
export function createCapHold(): CapHold {
  let until = 0;
  let inARow = 0;
  /** The newest call when the hold began. */
  let since = -1;
  return {
    until: () => until,
    refused(call, newest, now, retryAfterMs) {
      const asked = Math.min(Math.max(retryAfterMs ?? minuteMs, shortestMs), longestMs);
      if (call <= since) {
        until = Math.max(until, now + asked);
        return;
      }
      until = now + Math.max(asked, Math.min(asked * 2 ** inARow, longestGrownMs));
      inARow += 1;
      since = newest;
    },
    answered(call) {
      if (call > since) inARow = 0;
    },
  };
}
