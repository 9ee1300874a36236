import type { AttemptResult } from "../event/delivery.ts";
import type { LineSettings } from "./settings.ts";

/*
 * | state | what happens | becomes |
 * |---|---|---|
 * | closed | `failures` failures, one after the other | open for `pause` |
 * | closed | a success | closed, the count begins anew |
 * | open | any record (an attempt that began before it opened) | open, unchanged |
 * | open | its time is over | half-open |
 * | half-open | the first `mayStart` | half-open, the probe is out: nothing else may start |
 * | half-open | a success | closed, the pause is `pause` again |
 * | half-open | a failure | open, for twice the last pause, at most `longest` |
 * | half-open | neutral | half-open, another probe may start |
 *
 * Neutral changes nothing else. The passing of time is noticed when somebody asks: there is no timer.
 */
export type BreakerState = "closed" | "open" | "half-open";

/** What is shown of a breaker. */
export interface BreakerView {
  readonly state: BreakerState;
  /** Unix milliseconds until which the destination asked not to be called; null when it does not pause. */
  readonly pausedUntil: number | null;
}

/** The circuit breaker of one destination. An open one spends no attempts. */
export interface Breaker {
  state(): BreakerState;
  /**
   * True when an attempt may start now. In half-open it lets one through (the probe) until `record`,
   * so ask it last, and call `record` for every true it gave (`"neutral"` when nothing was sent after all).
   */
  mayStart(): boolean;
  /** True when half-open with the probe out: `mayStart` would be false, and to ask it is not worth a delivery. */
  waitsForProbe(): boolean;
  /** Unix milliseconds until which no attempt starts; null unless open. */
  openUntil(): number | null;
  /** Tells what came of an attempt that `mayStart` let through. */
  record(ok: boolean | "neutral"): void;
  /** The destination asked (429) not to be called before `until`, unix milliseconds. No state: nothing failed. */
  pause(until: number): void;
  /** The latest `pause` there was; 0 when there was none. */
  pausedUntil(): number;
  /** An operator ends the pause; true when there was one. */
  endPause(): boolean;
  close(): void;
}

/** A breaker, closed. `clock` gives unix milliseconds. */
export function createBreaker(settings: LineSettings["breaker"], clock: () => number): Breaker {
  let current: BreakerState = "closed";
  let failures = 0;
  let pause = settings.pause;
  let until = 0;
  let probeOut = false;
  let pausedUntil = 0;
  let pausedFor = 0;

  /** More left than was asked for: the clock was set back. */
  function paused(): number {
    pausedUntil = Math.min(pausedUntil, clock() + pausedFor);
    return pausedUntil;
  }

  function move(to: BreakerState): void {
    current = to;
    failures = 0;
    probeOut = false;
    if (to === "open") until = clock() + pause;
    if (to === "closed") pause = settings.pause;
  }

  function state(): BreakerState {
    if (current === "open") {
      const left = until - clock();
      // More left than a whole pause: the clock was set back, and must not keep the destination shut.
      if (left > pause) until -= left - pause;
      if (left <= 0) move("half-open");
    }
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
      if (at <= paused()) return;
      pausedUntil = at;
      pausedFor = at - clock();
    },
    pausedUntil: paused,
    endPause() {
      const wasPaused = paused() > clock();
      pausedUntil = 0;
      return wasPaused;
    },
    close() {},
  };
}

/**
 * Whether an attempt speaks for the destination's health (true), against it (false) or neither
 * ("neutral"). A 4xx other than 408 and 429 is about the one delivery: somebody is at home.
 */
export function breakerVerdict(result: AttemptResult): boolean | "neutral" {
  if (result.kind === "failed") return result.error === "aborted" || result.error === "internal" ? "neutral" : false;
  if (result.kind === "taken") return true;
  const { status } = result;
  if (status >= 200 && status < 300) return true;
  return status >= 400 && status < 500 && status !== 408 && status !== 429 ? "neutral" : false;
}
