import { shownMetadata } from "../../model/message.ts";
import type { MessageFilter, MessageView, RunFilter, RunView, SeqBounds } from "../views.ts";
import type { Names } from "./names.ts";
import type { Db } from "./open.ts";
import type { MessageRow, RunRow } from "./track.ts";

export function createReadMessages(db: Db, names: Names) {
  const columns = ["wamid", "service_id", "reference"] as const;
  const bounds = db.prepare<[], { oldest: number | null; newest: number | null }>(
    "SELECT (SELECT min(seq) FROM messages) AS oldest, (SELECT max(seq) FROM messages) AS newest",
  );
  const byWamid = db.prepare<[string], MessageRow>(
    "SELECT m.* FROM names a JOIN messages m ON m.account = a.id AND m.wamid = ? WHERE a.kind = 'account'",
  );
  const byId = db.prepare<[string], MessageRow>("SELECT * FROM messages WHERE service_id = ? LIMIT 100");
  const byReference = db.prepare<[string], MessageRow>("SELECT * FROM messages WHERE reference = ? ORDER BY seq DESC LIMIT 100");
  const readers = { wamid: byWamid, service_id: byId, reference: byReference };

  function viewOf(row: MessageRow): MessageView {
    return {
      account: names.nameOf(row.account),
      wamid: row.wamid,
      id: row.service_id,
      conversationId: row.conversation_id,
      reference: row.reference,
      metadata: shownMetadata(row.metadata),
      status: row.status,
      errorCode: row.error_code,
      times: JSON.parse(row.times),
      sentAt: row.told_sent_at,
      registeredAt: row.registered_at,
      updatedAt: row.updated_at,
    };
  }

  return {
    bounds(): SeqBounds {
      const { oldest = null, newest = null } = bounds.get() ?? {};
      return oldest === null || newest === null ? null : { oldest, newest };
    },
    /** Registered ones, newest first. */
    list({ account, status, reference, after, before, limit }: MessageFilter): (MessageView & { readonly seq: number })[] {
      const where = ["seq > ?", "seq < ?", "registered_at IS NOT NULL"];
      const values: (string | number | null)[] = [after, before];
      const add = (condition: string, value: string | number | null | undefined) => {
        if (value === undefined) return;
        where.push(condition);
        values.push(value);
      };
      // An unknown account has no messages.
      add("account = ?", account === undefined ? undefined : (names.find("account", account) ?? -1));
      add("status = ?", status);
      add("reference = ?", reference);
      const rows = db
        .prepare<(string | number | null)[], MessageRow>(`SELECT * FROM messages WHERE ${where.join(" AND ")} ORDER BY seq DESC LIMIT ?`)
        .all(...values, limit);
      return rows.map((row) => ({ seq: row.seq, ...viewOf(row) }));
    },
    /** By wamid; by the service's id when none has it; else by reference. */
    find(name: string): MessageView[] {
      for (const column of columns) {
        const rows = readers[column].all(name);
        if (rows.length > 0) return rows.map(viewOf);
      }
      return [];
    },
  };
}

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
      times: JSON.parse(row.times),
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
      // An unknown account has no runs.
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
