import type { Clock } from "../event/clock.ts";

export interface TokenBucket {
  /** Takes a token when there is one. */
  take(): boolean;
  /** Unix milliseconds at which `take` will next succeed; now or earlier when it would succeed at once. */
  nextAt(): number;
  close(): void;
}

/**
 * Share of a second whose tokens may be saved up. Small, because downstream counts in windows of its
 * own and a full second saved up would let twice the rate through; not smaller, because timers tick in
 * whole milliseconds and a high rate could not be kept.
 */
const savedSeconds = 0.1;

/**
 * Lets `perSecond` attempts a second start: within any w seconds at most `perSecond * w + max(1,
 * perSecond / 10)`. `clock` gives unix milliseconds.
 */
export function createTokenBucket(perSecond: number, clock: () => number): TokenBucket {
  const interval = 1000 / perSecond;
  const saved = Math.max(1, perSecond * savedSeconds) * interval;
  // Times within are relative: at the size of unix milliseconds, sums of fractions drift.
  const origin = clock();
  // The generic cell rate algorithm: one number, the time at which the bucket will be full again.
  let fullAt = 0;

  function next(now: number): number {
    // Further ahead than an empty bucket can be: the clock was set back.
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

/** The rate of a destination as all processes have it. */
export interface SharedRate {
  /** Takes up to `want` tokens. Rejects when the store is down: whether they were taken is not known then. */
  take(ask: SharedRateAsk): Promise<{ readonly taken: number; readonly waitMs: number }>;
}

interface SharedRateAsk {
  readonly want: number;
  /** Milliseconds between two tokens, and worth of how many milliseconds may be saved up. */
  readonly interval: number;
  readonly saved: number;
}

/** While an answer is under way the lane looks again after this long at the latest; `changed` comes sooner. */
const answerMs = 1000;

/** How long after a failed call the store is asked again. Until then nothing starts: the rate is a promise. */
const storeRetryMs = 500;

/** A token is good for the turn its answer comes in, however long that took. */
const turnMs = 20;

/** Share of a second whose tokens are saved up, and worth of which a process may have taken and not used. */
const halfShare = 0.05;

/**
 * Lets `perSecond` attempts a second start over all processes, with the bound of `token-bucket.ts`: of
 * the tenth of a second that may be saved up, half is saved where all share it, and half is what a
 * process takes ahead, in one round trip. Tokens not used within that time are gone, because another
 * process's would come on top. Up to 10 a second they are taken one by one, each when it is needed.
 */
export function createSharedRate(perSecond: number, shared: SharedRate, clock: Clock, changed: () => void): TokenBucket {
  const interval = 1000 / perSecond;
  const saved = Math.max(1, perSecond * halfShare) * interval;
  const goodForMs = Math.max(0, Math.min(halfShare * 1000, 100 - interval));
  const mostTaken = Math.max(1, Math.floor(perSecond * halfShare));
  let tokens = 0;
  let goodUntil = 0;
  /** Grows while all that was taken is used: a process with little to do wastes little. */
  let want = 1;
  let askAgainAt = 0;
  let asking = false;
  let closed = false;

  function has(now: number): boolean {
    if (tokens > 0 && now > goodUntil) {
      want = Math.max(1, want - tokens);
      tokens = 0;
    }
    return tokens > 0;
  }

  async function ask(now: number): Promise<void> {
    asking = true;
    try {
      const { taken, waitMs } = await shared.take({ want, interval, saved });
      const arrived = clock.now();
      tokens = taken;
      goodUntil = Math.max(now + goodForMs, arrived + turnMs);
      askAgainAt = arrived + waitMs;
      if (taken === want) want = Math.min(mostTaken, want * 2);
    } catch {
      askAgainAt = clock.now() + storeRetryMs;
    }
    asking = false;
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
      // More than one wait ahead: the clock was set back.
      askAgainAt = Math.min(askAgainAt, now + Math.max(interval, storeRetryMs));
      if (!asking && askAgainAt <= now) void ask(now);
      return asking ? now + answerMs : askAgainAt;
    },
    close() {
      closed = true;
    },
  };
}
