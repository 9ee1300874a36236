import type { MessageStatus } from "../../event/statuses.ts";
import type { MessageState } from "../../event/tracking.ts";
import type { MessageFacts } from "../registration.ts";
import type { Db } from "./open.ts";

export interface MessageRow {
  seq: number;
  account: number;
  wamid: string;
  service_id: string | null;
  reference: string | null;
  metadata: string | null;
  registered_at: number | null;
  status: MessageStatus | null;
  error_code: string | null;
  pending_at: number | null;
  sent_at: number | null;
  delivered_at: number | null;
  read_at: number | null;
  failed_at: number | null;
  received_at: number | null;
  updated_at: number;
  conversation_id: string | null;
  /** When it was sent, as its registration told, in unix ms; null when nobody said. */
  told_sent_at: number | null;
  /** 1: the service does not know it, and it is polled no more. */
  missing: number | null;
}

/** What a user tells about a message of theirs, and when, in unix ms. */
export interface Registration extends MessageFacts {
  readonly at: number;
}

export function knownFacts(row: MessageRow): MessageFacts {
  return {
    id: row.service_id,
    reference: row.reference,
    conversationId: row.conversation_id,
    metadata: row.metadata,
    sentAt: row.told_sent_at,
  };
}

export function stateOf(row: MessageRow): MessageState {
  const times: Partial<Record<MessageStatus, number>> = {};
  if (row.pending_at !== null) times.pending = row.pending_at;
  if (row.sent_at !== null) times.sent = row.sent_at;
  if (row.delivered_at !== null) times.delivered = row.delivered_at;
  if (row.read_at !== null) times.read = row.read_at;
  if (row.failed_at !== null) times.failed = row.failed_at;
  if (row.received_at !== null) times.received = row.received_at;
  return { status: row.status, errorCode: row.error_code, times };
}

export type Messages = ReturnType<typeof createMessages>;

export function createMessages(db: Db) {
  const byWamid = db.prepare<[number, string], MessageRow>("SELECT * FROM messages WHERE account = ? AND wamid = ?");
  const bySeq = db.prepare<[number], MessageRow>("SELECT * FROM messages WHERE seq = ?");
  const insert = db.prepare(`
    INSERT INTO messages (account, wamid, service_id, reference, conversation_id, metadata, told_sent_at, registered_at, status, error_code,
      pending_at, sent_at, delivered_at, read_at, failed_at, received_at, updated_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
  const update = db.prepare(`
    UPDATE messages SET status = ?, error_code = ?, pending_at = ?, sent_at = ?, delivered_at = ?, read_at = ?,
      failed_at = ?, received_at = ?, updated_at = ? WHERE seq = ?`);
  const register = db.prepare(`
    UPDATE messages SET service_id = ?, reference = ?, conversation_id = ?, metadata = ?, told_sent_at = ?,
      registered_at = coalesce(registered_at, ?), updated_at = ? WHERE seq = ?`);

  const found = db.prepare<[number]>("UPDATE messages SET missing = NULL WHERE seq = ?");
  const pollAgain = db.prepare<[number]>(
    "UPDATE asks SET next_at = since, rank = 0, asks = 0, failures = 0, misses = 0, asked_at = NULL WHERE message = ? AND next_at IS NULL",
  );

  function factsOf(r: Registration | null): (string | number | null)[] {
    return r === null ? [null, null, null, null, null, null] : [r.id, r.reference, r.conversationId, r.metadata, r.sentAt, r.at];
  }

  function times(state: MessageState): (number | null)[] {
    const t = state.times;
    return [t.pending ?? null, t.sent ?? null, t.delivered ?? null, t.read ?? null, t.failed ?? null, t.received ?? null];
  }

  return {
    find: (account: number, wamid: string): MessageRow | undefined => byWamid.get(account, wamid),
    get: (seq: number): MessageRow | undefined => bySeq.get(seq),
    /** Adds a message that was seen, registered or both; gives its seq. */
    add(account: number, wamid: string, state: MessageState, registration: Registration | null, at: number): number {
      return Number(
        insert.run(account, wamid, ...factsOf(registration), state.status, state.errorCode, ...times(state), at).lastInsertRowid,
      );
    },
    save(seq: number, state: MessageState, at: number): void {
      update.run(state.status, state.errorCode, ...times(state), at, seq);
    },
    /** An event or a registration shows that a message exists after all: it is polled from the beginning. */
    revive(row: MessageRow): void {
      if (row.missing === null) return;
      found.run(row.seq);
      pollAgain.run(row.seq);
    },
    /** Replaces all facts of a message; it counts as registered from the first time on. */
    register(seq: number, facts: Registration): void {
      register.run(...factsOf(facts), facts.at, seq);
    },
  };
}
