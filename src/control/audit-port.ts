import type { AuditFilter, AuditReport } from "../event/audit-report.ts";

export interface AuditUnderWay {
  /** Events looked at, of how many. */
  readonly checked: number;
  readonly of: number;
}

/** What the control API asks of the audit. */
export interface AuditPort {
  /**
   * Starts an audit, or joins the one of the same filter that is under way, and waits up to `waitMs` for its end. A
   * report goes once to those who wait for it; who asks later starts another.
   */
  audit(filter: AuditFilter, waitMs: number): Promise<AuditReport | AuditUnderWay>;
}
