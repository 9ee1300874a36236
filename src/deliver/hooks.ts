import type { BreakerState } from "../model/breaker.ts";
import type { StoredDelivery } from "../model/delivery.ts";
import type { Decision } from "./decide.ts";
import type { AttemptOutcome, OutgoingDelivery } from "./destinations/destination.ts";

export interface AttemptReport {
  readonly delivery: StoredDelivery;
  readonly outgoing: OutgoingDelivery;
  readonly outcome: AttemptOutcome;
  readonly decision: Decision;
}

export interface LaneHooks {
  /** May add to a delivery before it is sent. Must not throw. */
  composed?(delivery: StoredDelivery, outgoing: OutgoingDelivery): OutgoingDelivery;
  attempted(report: AttemptReport): void;
  breakerMoved(route: string, state: BreakerState): void;
  stopped(route: string, reason: string): void;
  /** The destination asked for a pause until `until`, unix ms. */
  paused(route: string, until: number): void;
  storeFailed(route: string, error: unknown): void;
  /** The relay itself failed on this delivery. Others go on. */
  failed(delivery: StoredDelivery, stage: FailedStage, error: unknown): void;
}

/** Where the relay failed on a delivery. */
export type FailedStage = "compose" | "send" | "report" | "settle";
