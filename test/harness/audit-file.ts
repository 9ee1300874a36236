import type { AuditReport } from "../../src/model/audit.ts";
import { audit } from "../../src/store/audit/audit.ts";
import type { AuditOrder } from "../../src/store/port.ts";
import type { Work } from "../../src/store/sql/ops.ts";
import { openForReading } from "../../src/store/sqlite/file.ts";
import { createSqliteRunner } from "../../src/store/sqlite/runner.ts";

/** The audit of a store's file in this thread, beside whatever writes it. */
export function auditFile(path: string, order: Partial<AuditOrder> & Pick<AuditOrder, "now">): AuditReport {
  return readFile(
    path,
    audit({ isRunning: false, ...order }, () => {}),
  );
}

function readFile<Result>(path: string, work: Work<Result>): Result {
  const db = openForReading(path);
  try {
    return createSqliteRunner(db).read(work);
  } finally {
    db.close();
  }
}
