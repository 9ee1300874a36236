import type { BreakerState } from "../model/breaker.ts";
import { type Clock, createSteadyTime, type SteadyTime } from "../model/clock.ts";
import type { RouteNotes } from "../model/delivery.ts";
import { type Breaker, createBreaker } from "./breaker.ts";
import type { Destination } from "./destinations/destination.ts";
import { breakerName, type DestinationSettings, type LaneSettings, rateOf } from "./settings.ts";

export interface SessionParts {
  readonly clock: Clock;
  readonly connect: (to: DestinationSettings) => Destination;
  /** Another process may have delivered the route a moment ago, so its rate begins without tokens. */
  readonly takesOver?: boolean;
}

/** A destination with the settings it was made from. */
export interface DestinationSession {
  readonly settings: LaneSettings;
  readonly destination: Destination;
  /** Of breaker and bucket. */
  readonly time: SteadyTime;
  readonly breaker: Breaker;
  readonly bucket: TokenBucket | null;
  /** Starts per second, of this shard. */
  readonly rate: number | undefined;
  /** The last breaker state that was reported. */
  seen: BreakerState;
}

export function openSession(settings: LaneSettings, parts: SessionParts, notes: RouteNotes): DestinationSession {
  const { clock, connect, takesOver } = parts;
  const rate = rateOf(settings);
  const time = createSteadyTime(clock);
  const breaker = breakerFrom(notes, settings, clock.now(), time.now);
  const bucket = rate === undefined ? null : createTokenBucket(rate, time.now, takesOver);
  return { settings, destination: connect(settings.to), time, breaker, bucket, rate, seen: breaker.state() };
}

/** Changed settings begin with a closed breaker and without a pause. `now` in unix ms. */
function breakerFrom({ pause, opened }: RouteNotes, settings: LaneSettings, now: number, time: () => number): Breaker {
  const name = breakerName(settings);
  // No longer than a whole pause: the clock was set back since.
  const left = opened?.breaker === name ? { until: time() + Math.min(opened.until - now, opened.pause), pause: opened.pause } : null;
  const breaker = createBreaker(settings.to.breaker, time, left);
  if (pause?.breaker === name) breaker.pause(time() + pausedUntil(pause.until, settings, now) - now);
  return breaker;
}

/** When a stored pause ends. A longer one than the settings allow: the clock was set back. */
export function pausedUntil(until: number, { to }: LaneSettings, now: number): number {
  return Math.min(until, now + ("maxRetryAfter" in to ? to.maxRetryAfter : 0));
}

interface TokenBucket {
  /** Takes a token if there is one. */
  take(): boolean;
  /** Steady ms at which `take` succeeds next; now or earlier when it succeeds at once. */
  nextAt(): number;
}

/**
 * Seconds worth of tokens that may be saved up. A full second would allow twice the rate within a window of the
 * downstream's. Much less would not sustain a high rate, because timers tick in whole milliseconds.
 */
const savedSeconds = 0.1;

/**
 * Lets `perSecond` attempts a second start: within any w seconds at most `perSecond * w + max(1,
 * perSecond / 10)`. `time` gives steady ms. `isEmpty`: another process may have used up the tokens.
 */
export function createTokenBucket(perSecond: number, time: () => number, isEmpty = false): TokenBucket {
  const interval = 1000 / perSecond;
  const saved = Math.max(1, perSecond * savedSeconds) * interval;
  // Times are relative to `origin`: for large numbers, sums of fractions drift.
  const origin = time();
  // The generic cell rate algorithm: one number, the time at which the bucket will be full again.
  let fullAt = isEmpty ? saved : 0;

  const next = (): number => Math.ceil(fullAt + interval - saved);

  return {
    take() {
      const now = time() - origin;
      if (next() > now) return false;
      fullAt = Math.max(fullAt, now) + interval;
      return true;
    },
    nextAt: () => origin + next(),
  };
}
