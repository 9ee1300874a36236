import { shownMetadata } from "../../model/message.ts";
import type { MessageFilter, MessageView, RunFilter, RunView } from "../views.ts";
import type { Db } from "./file.ts";
import type { Names } from "./names.ts";
import { createBounds, joinConditions } from "./query.ts";
import type { MessageRow, RunRow } from "./track.ts";

export function createReadMessages(db: Db, names: Names) {
  const columns = ["wamid", "service_id", "reference"] as const;
  const byWamid = db.prepare<[string], MessageRow>(
    "SELECT m.* FROM names a JOIN messages m ON m.account = a.id AND m.wamid = ? WHERE a.kind = 'account'",
  );
  const byId = db.prepare<[string], MessageRow>("SELECT * FROM messages WHERE service_id = ? LIMIT 100");
  const byReference = db.prepare<[string], MessageRow>("SELECT * FROM messages WHERE reference = ? ORDER BY seq DESC LIMIT 100");
  const readers = { wamid: byWamid, service_id: byId, reference: byReference };

  const accountOf = accountsIn(names);

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
    bounds: createBounds(db, "messages"),
    list({ account, status, reference, after, before, limit }: MessageFilter): (MessageView & { readonly seq: number })[] {
      const { where, values } = joinConditions(
        [
          ["seq > @after", after],
          ["seq < @before", before],
          ["registered_at IS NOT NULL", true],
          ["account = @account", accountOf(account)],
          ["status = @status", status],
          ["reference = @reference", reference],
        ],
        { limit },
      );
      const rows = db
        .prepare<[typeof values], MessageRow>(`SELECT * FROM messages WHERE ${where} ORDER BY seq DESC LIMIT @limit`)
        .all(values);
      return rows.map((row) => ({ seq: row.seq, ...viewOf(row) }));
    },
    find(name: string): MessageView[] {
      for (const column of columns) {
        const rows = readers[column].all(name);
        if (rows.length > 0) return rows.map(viewOf);
      }
      return [];
    },
  };
}

/** The number of an account that a filter gives. -1: it is unknown and has no rows. */
function accountsIn(names: Names): (name: string | undefined) => number | undefined {
  return (name) => (name === undefined ? undefined : (names.find("account", name) ?? -1));
}

export function createReadRuns(db: Db, names: Names) {
  const accountOf = accountsIn(names);

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
    bounds: createBounds(db, "runs"),
    list({ account, status, reference, runId, after, before, limit }: RunFilter): (RunView & { readonly seq: number })[] {
      const { where, values } = joinConditions(
        [
          ["seq > @after", after],
          ["seq < @before", before],
          ["account = @account", accountOf(account)],
          ["status = @status", status],
          ["reference = @reference", reference],
          ["run_id = @runId", runId],
          // The index is by account first.
          ["account IN (SELECT id FROM names WHERE kind = 'account')", runId !== undefined],
        ],
        { limit },
      );
      return db
        .prepare<[typeof values], RunRow>(`SELECT * FROM runs WHERE ${where} ORDER BY seq DESC LIMIT @limit`)
        .all(values)
        .map(viewOf);
    },
  };
}
