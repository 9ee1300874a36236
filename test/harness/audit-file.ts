import type { AuditReport } from "../../src/model/audit.ts";
import type { AuditOrder } from "../../src/store/reading.ts";
import { runAudit } from "../../src/store/sqlite/audit.ts";
import { openForReading } from "../../src/store/sqlite/file.ts";

/** The audit of a store's file in this thread, beside whatever writes it. */
export function auditFile(path: string, order: Partial<AuditOrder> & Pick<AuditOrder, "now">): AuditReport {
  const db = openForReading(path);
  try {
    const steps = runAudit(db, { isRunning: false, mostOffenders: 100, ...order });
    for (;;) {
      const step = steps.next();
      if (step.done === true) return step.value;
    }
  } finally {
    db.close();
  }
}
