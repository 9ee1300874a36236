import { shownMetadata } from "../../event/metadata.ts";
import type { SeqBounds } from "../event-views.ts";
import type { RunFilter, RunView } from "../tracked-views.ts";
import type { Names } from "./names.ts";
import type { Db } from "./open.ts";
import { type RunRow, runStateOf } from "./runs.ts";

export function createReadRuns(db: Db, names: Names) {
  const bounds = db.prepare<[], { oldest: number | null; newest: number | null }>(
    "SELECT (SELECT min(seq) FROM runs) AS oldest, (SELECT max(seq) FROM runs) AS newest",
  );

  function viewOf(row: RunRow): RunView & { readonly seq: number } {
    return {
      seq: row.seq,
      account: names.nameOf(row.account),
      runId: row.run_id,
      reference: row.reference,
      metadata: shownMetadata(row.metadata),
      status: row.status,
      error: row.error,
      times: runStateOf(row).times as Record<string, number>,
      registeredAt: row.registered_at,
      updatedAt: row.updated_at,
    };
  }

  return {
    bounds(): SeqBounds {
      const { oldest = null, newest = null } = bounds.get() ?? {};
      return oldest === null || newest === null ? null : { oldest, newest };
    },
    /** Newest first. */
    list({ account, status, reference, runId, after, before, limit }: RunFilter): (RunView & { readonly seq: number })[] {
      const where = ["seq > ?", "seq < ?"];
      const values: (string | number)[] = [after, before];
      const add = (condition: string, value: string | number | undefined) => {
        if (value === undefined) return;
        where.push(condition);
        values.push(value);
      };
      // An account that the file does not know has no runs.
      add("account = ?", account === undefined ? undefined : (names.find("account", account) ?? -1));
      add("status = ?", status);
      add("reference = ?", reference);
      add("run_id = ?", runId);
      // The index is by account first.
      if (runId !== undefined) where.push("account IN (SELECT id FROM names WHERE kind = 'account')");
      return db
        .prepare<(string | number)[], RunRow>(`SELECT * FROM runs WHERE ${where.join(" AND ")} ORDER BY seq DESC LIMIT ?`)
        .all(...values, limit)
        .map(viewOf);
    },
  };
}
