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

/** When the time of an open breaker ends, and how long it is. All times here are steady ms (`model/clock.ts`). */
interface Opened {
  readonly until: number;
  readonly pause: number;
}

/** The circuit breaker of one destination. While it is open, no attempts are spent. */
export interface Breaker {
  state(): BreakerState;
  /**
   * True when an attempt may start now. Half-open allows one attempt (the probe) until `record`. Call it after all other
   * checks, and call `record` for every true it returned (`"neutral"` when nothing was sent).
   */
  mayStart(): boolean;
  /** True when half-open with the probe in flight: `mayStart` would return false. */
  waitsForProbe(): boolean;
  /** Until when no attempt starts; null unless open. */
  openUntil(): number | null;
  /** Until when it opened, and for how long; null while closed. */
  opened(): Opened | null;
  /** Records the outcome of an attempt that `mayStart` allowed. */
  record(ok: boolean | "neutral"): void;
  /** The destination asked (429) for a pause. Leaves the state as it is. */
  pause(until: number): void;
  /** The end of the latest `pause`; 0 when there was none. */
  pausedUntil(): number;
  /** An operator wants an attempt now: ends the pause, and an open breaker is half-open. True when there was either. */
  tryNow(): boolean;
}

/** A breaker. `opened`: it was open before; else it is closed. */
export function createBreaker(settings: CommonSettings["breaker"], time: () => number, opened: Opened | null = null): Breaker {
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
    mayStart() {
      if (state() === "closed") return true;
      if (current === "open" || probeOut) return false;
      probeOut = true;
      return true;
    },
    waitsForProbe: () => state() === "half-open" && probeOut,
    openUntil: () => (state() === "open" ? until : null),
    opened: () => (state() === "closed" ? null : { until, pause }),
    record(ok) {
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
    pause(at) {
      pausedUntil = Math.max(pausedUntil, at);
    },
    pausedUntil: () => pausedUntil,
    tryNow() {
      const waits = pausedUntil > time() || state() === "open";
      pausedUntil = 0;
      if (current === "open") move("half-open");
      return waits;
    },
  };
}

/**
 * Whether an attempt counts as a success of the destination (true), a failure (false) or neither ("neutral"). A 4xx other
 * than 408 and 429 concerns the one delivery, so it neither trips nor resets the breaker.
 */
export function breakerVerdict(result: AttemptResult): boolean | "neutral" {
  // As a 4xx, `rejected` may concern one delivery.
  if (result.kind === "failed") return ["aborted", "internal", "rejected"].includes(result.error) ? "neutral" : false;
  if (result.kind === "taken") return true;
  const { status } = result;
  if (status >= 200 && status < 300) return true;
  return status >= 400 && status < 500 && status !== 408 && status !== 429 ? "neutral" : false;
}
