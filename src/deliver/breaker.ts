import type { BreakerState } from "../model/breaker.ts";
import type { AttemptResult } from "../model/delivery.ts";
import type { CommonSettings } from "./settings.ts";

/*
 * | state | what happens | becomes |
 * |---|---|---|
 * | closed | `failures` failures in a row | open for `pause` |
 * | closed | a success | closed, the count restarts |
 * | open | any record (an attempt that began before it opened) | open, unchanged |
 * | open | its time ends, or an operator wants an attempt now | half-open |
 * | half-open | the first `mayStart` | half-open, the probe is in flight: nothing else may start |
 * | half-open | a success | closed, the pause is reset to `pause` |
 * | half-open | a failure | open, for twice the last pause, at most `longest` |
 * | half-open | neutral | half-open, another probe may start |
 *
 * Neutral changes nothing else. There is no timer: each call checks the time.
 */

interface Opened {
  readonly until: number;
  readonly pause: number;
}

export type Breaker = ReturnType<typeof createBreaker>;

/** All times are steady ms. `opened`: it was open before. */
export function createBreaker(settings: CommonSettings["breaker"], time: () => number, opened: Opened | null = null) {
  let current: BreakerState = opened === null ? "closed" : "open";
  let failures = 0;
  let pause = opened?.pause ?? settings.pause;
  let until = opened?.until ?? 0;
  let probeOut = false;
  let pausedUntil = 0;

  function move(to: BreakerState): void {
    current = to;
    failures = 0;
    probeOut = false;
    if (to === "open") until = time() + pause;
    if (to === "closed") pause = settings.pause;
  }

  function state(): BreakerState {
    if (current === "open" && until <= time()) move("half-open");
    return current;
  }

  return {
    state,
    /** The last check. `record` must follow every true. */
    mayStart(): boolean {
      if (state() === "closed") return true;
      if (current === "open" || probeOut) return false;
      probeOut = true;
      return true;
    },
    waitsForProbe: (): boolean => state() === "half-open" && probeOut,
    openUntil: (): number | null => (state() === "open" ? until : null),
    /** Null while closed. */
    opened: (): Opened | null => (state() === "closed" ? null : { until, pause }),
    record(ok: boolean | "neutral"): void {
      const now = state();
      if (now === "open") return;
      if (ok === "neutral") {
        probeOut = false;
      } else if (ok) {
        if (now === "half-open") move("closed");
        failures = 0;
      } else if (now === "half-open") {
        pause = Math.max(settings.pause, Math.min(pause * 2, settings.longest));
        move("open");
      } else {
        failures += 1;
        if (failures >= settings.failures) move("open");
      }
    },
    /** Leaves the state as it is. */
    pause(at: number): void {
      pausedUntil = Math.max(pausedUntil, at);
    },
    /** 0: there was none. */
    pausedUntil: (): number => pausedUntil,
    /** An operator wants an attempt now. True when a pause or an open breaker prevented it. */
    tryNow(): boolean {
      const waits = pausedUntil > time() || state() === "open";
      pausedUntil = 0;
      if (current === "open") move("half-open");
      return waits;
    },
  };
}

/** Of the destination. A 4xx other than 408 and 429 concerns the one delivery. */
export function breakerVerdict(result: AttemptResult): boolean | "neutral" {
  // As a 4xx, `rejected` may concern one delivery.
  if (result.kind === "failed") return ["aborted", "internal", "rejected"].includes(result.error) ? "neutral" : false;
  if (result.kind === "taken") return true;
  const { status } = result;
  if (status >= 200 && status < 300) return true;
  return status >= 400 && status < 500 && status !== 408 && status !== 429 ? "neutral" : false;
}

/** A full second would allow twice the rate within a window of the downstream's; much less cannot sustain a high rate. */
const savedSeconds = 0.1;

export type TokenBucket = ReturnType<typeof createTokenBucket>;

/**
 * Within w seconds at most `perSecond * w + max(1, perSecond / 10)` start. `time` gives steady ms. `isEmpty`: tokens
 * may be used up.
 */
export function createTokenBucket(perSecond: number, time: () => number, isEmpty = false) {
  const interval = 1000 / perSecond;
  const saved = Math.max(1, perSecond * savedSeconds) * interval;
  // Times are relative to `origin`: for large numbers, sums of fractions drift.
  const origin = time();
  // The generic cell rate algorithm: one number, the time at which the bucket will be full again.
  let fullAt = isEmpty ? saved : 0;

  const next = (): number => Math.ceil(fullAt + interval - saved);

  return {
    take(): boolean {
      const now = time() - origin;
      if (next() > now) return false;
      fullAt = Math.max(fullAt, now) + interval;
      return true;
    },
    /** Steady ms. */
    nextAt: () => origin + next(),
  };
}
