import type { AttemptResult } from "../event/delivery.ts";
import type { UrlDestinationSettings } from "./settings.ts";

export type BreakerState = "closed" | "open" | "half-open";

/** The circuit breaker of one destination. An open one spends no attempts. */
export interface Breaker {
  state(): BreakerState;
  /** True when an attempt may start now, and counts on it: in half-open only one (the probe) gets true until `record`. */
  mayStart(): boolean;
  /** Unix milliseconds until which no attempt starts; null unless open. */
  openUntil(): number | null;
  /** Tells what came of an attempt that `mayStart` let through. */
  record(ok: boolean | "neutral"): void;
}

/** A breaker, closed. `clock` gives unix milliseconds. */
export function createBreaker(_settings: UrlDestinationSettings["breaker"], _clock: () => number): Breaker {
  throw new Error("not written yet");
}

/** Whether an attempt speaks for the destination's health (true), against it (false) or neither ("neutral"). */
export function breakerVerdict(_result: AttemptResult): boolean | "neutral" {
  throw new Error("not written yet");
}
