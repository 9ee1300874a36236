import type { AuditReport } from "../../src/model/audit.ts";
import type { QualityQuery, QualityView, SeriesQuery, SeriesView } from "../../src/model/history.ts";
import type { AuditOrder } from "../../src/store/reading.ts";
import { runAudit } from "../../src/store/sqlite/audit.ts";
import { type Db, openForReading } from "../../src/store/sqlite/file.ts";
import { createNames } from "../../src/store/sqlite/names.ts";
import { createReadHistory, sumQuality } from "../../src/store/sqlite/read-history.ts";

/** The audit of a store's file in this thread, beside whatever writes it. */
export function auditFile(path: string, order: Partial<AuditOrder> & Pick<AuditOrder, "now">): AuditReport {
  return stepThrough(path, (db) => runAudit(db, { isRunning: false, mostOffenders: 100, ...order }));
}

/** The quality of a store's file in this thread. */
export function qualityOfFile(path: string, query: QualityQuery): QualityView {
  return stepThrough(path, (db) => sumQuality(db, query));
}

export function seriesOfFile(path: string, query: SeriesQuery): SeriesView {
  return stepThrough(path, (db) => createReadHistory(db, createNames(db)).series(query));
}

function stepThrough<Result>(path: string, begin: (db: Db) => Generator<unknown, Result>): Result {
  const db = openForReading(path);
  try {
    const steps = begin(db);
    for (;;) {
      const step = steps.next();
      if (step.done === true) return step.value;
    }
  } finally {
    db.close();
  }
}
