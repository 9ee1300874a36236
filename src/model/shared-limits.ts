export type BreakerState = "closed" | "open" | "half-open";

/** The public view of a breaker. */
export interface BreakerView {
  readonly state: BreakerState;
  /** Unix milliseconds until which the destination asked for a pause; null without one. */
  readonly pausedUntil: number | null;
  /** Unix milliseconds until which it is open; null unless open. */
  readonly openUntil: number | null;
  /** Unix milliseconds of the first failure in a row; null: the last attempt did not fail, or nobody knows. */
  readonly failingSince: number | null;
  /** Absent: not known beyond `failingSince`. */
  readonly failing?: Failing | null;
}

/** The attempts of a route that failed, in a row. */
export interface Failing {
  /** Unix ms at which the first one ended. */
  readonly since: number;
  readonly attempts: number;
  /** Of the last one: an HTTP status such as `503`, or an error such as `timeout`. */
  readonly cause: string;
}

/** The slow attempts of a route that delivered, in a row. */
export type Slow = Omit<Failing, "cause">;

/** The breaker of a destination shared by all processes. It follows the table of `deliver/breaker.ts`. */
export interface SharedBreaker {
  /** Reports verdicts and reads the state in one step. Rejects when the store is down; the outcome is then unknown. */
  step(request: SharedBreakerStep): Promise<SharedBreakerAnswer>;
}

export interface SharedBreakerStep {
  /** Names this process. */
  readonly holder: string;
  /** Outcomes of attempts in order: `s` success, `f` failure, `n` neutral. */
  readonly verdicts: string;
  /** Requests the probe: how long it may be in flight, in milliseconds; null: not requested. */
  readonly probeMs: number | null;
  /** Pause that the destination asked for, in milliseconds; null: none. */
  readonly pauseMs: number | null;
  /** Times in milliseconds. */
  readonly settings: { readonly failures: number; readonly pause: number; readonly longest: number };
}

/** Times are milliseconds from now; 0: none. */
export interface SharedBreakerAnswer {
  readonly state: BreakerState;
  /** Failures in a row, while closed. */
  readonly failures: number;
  readonly openMs: number;
  /** How long the probe in flight has left, and whether it belongs to the caller. */
  readonly probeMs: number;
  readonly ownsProbe: boolean;
  readonly pausedMs: number;
}

/** The rate of a destination, shared by all processes. */
export interface SharedRate {
  /**
   * Takes up to `want` tokens, and returns the time until the next one. Rejects when the store is down; the outcome is then
   * unknown.
   */
  take(request: SharedRateRequest): Promise<{ readonly taken: number; readonly waitMs: number }>;
}

export interface SharedRateRequest {
  readonly want: number;
  /** Milliseconds between two tokens, and how many milliseconds worth of tokens may be saved up. */
  readonly interval: number;
  readonly saved: number;
}
