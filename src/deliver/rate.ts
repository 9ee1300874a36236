import type { Clock } from "../model/clock.ts";
import type { SharedRate } from "../model/shared-limits.ts";

export interface TokenBucket {
  /** Takes a token if there is one. */
  take(): boolean;
  /** Unix milliseconds at which `take` succeeds next; now or earlier when it succeeds at once. */
  nextAt(): number;
  close(): void;
}

/**
 * Seconds worth of tokens that may be saved up. A full second would allow twice the rate within a window of the
 * downstream's. Much less would not sustain a high rate, because timers tick in whole milliseconds.
 */
const savedSeconds = 0.1;

/**
 * Lets `perSecond` attempts a second start: within any w seconds at most `perSecond * w + max(1,
 * perSecond / 10)`. `clock` gives unix milliseconds. `isEmpty`: another process may have used up the tokens.
 */
export function createTokenBucket(perSecond: number, clock: () => number, isEmpty = false): TokenBucket {
  const interval = 1000 / perSecond;
  const saved = Math.max(1, perSecond * savedSeconds) * interval;
  // Times are relative to `origin`: at the size of unix milliseconds, sums of fractions drift.
  const origin = clock();
  // The generic cell rate algorithm: one number, the time at which the bucket will be full again.
  let fullAt = isEmpty ? saved : 0;

  function next(now: number): number {
    // Later than an empty bucket allows: the clock was set back.
    fullAt = Math.min(fullAt, now + saved);
    return Math.ceil(fullAt + interval - saved);
  }

  return {
    take() {
      const now = clock() - origin;
      if (next(now) > now) return false;
      fullAt = Math.max(fullAt, now) + interval;
      return true;
    },
    nextAt: () => origin + next(clock() - origin),
    close() {},
  };
}

/** The lane looks again after this long while a request is in flight. Usually `changed` is called sooner. */
const answerMs = 1000;

/** Wait after a failed call. Nothing starts until then, because the rate must never be exceeded. */
const storeRetryMs = 500;

/** Tokens stay valid for the turn in which their answer arrives, however long it took. */
const turnMs = 20;

/** Seconds worth of tokens that are saved up in the store, and that a process may hold unused. */
const halfShare = 0.05;

/**
 * Allows `perSecond` attempts a second over all processes, with the bound of {@link createTokenBucket}. Of the tenth of a
 * second that may be saved up, the store saves half, and a process takes the other half ahead in one round trip. Unused
 * tokens expire after that time, because they would add to those of other processes. Up to 10 a second, tokens are taken
 * one by one.
 */
export function createSharedRate(perSecond: number, shared: SharedRate, clock: Clock, changed: () => void): TokenBucket {
  const interval = 1000 / perSecond;
  const saved = Math.max(1, perSecond * halfShare) * interval;
  const goodForMs = Math.max(0, Math.min(halfShare * 1000, 100 - interval));
  const mostTaken = Math.max(1, Math.floor(perSecond * halfShare));
  let tokens = 0;
  let goodUntil = 0;
  /** Grows while every token is used, so that a process with little work wastes few. */
  let want = 1;
  let nextTakeAt = 0;
  let isTaking = false;
  let closed = false;

  function has(now: number): boolean {
    if (tokens > 0 && now > goodUntil) {
      want = Math.max(1, want - tokens);
      tokens = 0;
    }
    return tokens > 0;
  }

  async function takeAhead(now: number): Promise<void> {
    isTaking = true;
    try {
      const { taken, waitMs } = await shared.take({ want, interval, saved });
      const arrived = clock.now();
      tokens = taken;
      goodUntil = Math.max(now + goodForMs, arrived + turnMs);
      nextTakeAt = arrived + waitMs;
      if (taken === want) want = Math.min(mostTaken, want * 2);
    } catch {
      nextTakeAt = clock.now() + storeRetryMs;
    }
    isTaking = false;
    if (!closed) changed();
  }

  return {
    take() {
      if (!has(clock.now())) return false;
      tokens -= 1;
      return true;
    },
    nextAt() {
      const now = clock.now();
      if (has(now)) return now;
      // Later than one wait allows: the clock was set back.
      nextTakeAt = Math.min(nextTakeAt, now + Math.max(interval, storeRetryMs));
      if (!isTaking && nextTakeAt <= now) void takeAhead(now);
      return isTaking ? now + answerMs : nextTakeAt;
    },
    close() {
      closed = true;
    },
  };
}
