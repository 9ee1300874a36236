export type BreakerState = "closed" | "open" | "half-open";

export interface BreakerView {
  readonly state: BreakerState;
  /** Unix milliseconds until which the destination asked for a pause; null without one. */
  readonly pausedUntil: number | null;
  /** Unix milliseconds until which it is open; null unless open. */
  readonly openUntil: number | null;
  /** Unix milliseconds of the first failure in a row; null: the last attempt did not fail, or that is unknown. */
  readonly failingSince: number | null;
  readonly failing?: Failing | null;
  /** Why nothing is sent until somebody resumes the route; null: it is not stopped. */
  readonly stop: RouteStop | null;
}

export interface RouteStop {
  /** Unix ms. */
  readonly at: number;
  readonly reason: string;
}

export interface Failing {
  /** Unix ms at which the first one ended. */
  readonly since: number;
  readonly attempts: number;
  /** Of the last one: an HTTP status such as `503`, or an error such as `timeout`. */
  readonly cause: string;
}

export type Slow = Omit<Failing, "cause">;
