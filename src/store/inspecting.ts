import type { AuditFilter, AuditReport } from "../event/audit-report.ts";
import type { DeliveryState } from "../event/delivery.ts";
import type { Disposition } from "../event/plan.ts";

/** Looks at every row, without holding up what else goes on. Rejects with `StoreUnavailable` when the store cannot be read, or after `close`. */
export interface Inspecting {
  stats(): Promise<Stats>;
  audit(order: AuditOrder, progress: (at: AuditProgress) => void): Promise<AuditReport>;
  close(): Promise<void>;
}

export interface Stats {
  readonly dispositions: Readonly<Record<Disposition, number>>;
  readonly duplicates: number;
  readonly deliveries: Readonly<Record<DeliveryState, number>>;
  /** Attempts made, and those that led to nothing yet. */
  readonly attempts: { readonly made: number; readonly failed: number };
}

export interface AuditOrder extends AuditFilter {
  /** Unix ms. */
  readonly now: number;
  /** A relay works on the store, so that what is due is done by now. */
  readonly isRunning: boolean;
  readonly mostOffenders: number;
}

export interface AuditProgress {
  /** Events looked at so far, of how many in all, counted by their numbers. */
  readonly checked: number;
  readonly of: number;
}
