export type BreakerState = "closed" | "open" | "half-open";

export interface BreakerView {
  readonly state: BreakerState;
  /** Until when the destination asked for a pause; null without one. */
  readonly pausedUntil: number | null;
  /** Until when it is open; null unless open. */
  readonly openUntil: number | null;
  /** Of the first failure in a row; null: the last attempt did not fail, or that is unknown. */
  readonly failingSince: number | null;
  readonly failing?: Failing | null;
  /** Why nothing is sent until somebody resumes the route; null: it is not stopped. */
  readonly stop: RouteStop | null;
}

export interface RouteStop {
  readonly at: number;
  readonly reason: string;
}

export interface Failing {
  readonly since: number;
  readonly attempts: number;
  /** Of the last one: an HTTP status such as `503`, or an error such as `timeout`. */
  readonly cause: string;
}

export type Slow = Omit<Failing, "cause">;
