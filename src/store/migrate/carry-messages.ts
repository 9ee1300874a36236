import { askScore, writeAskRecord } from "../redis/ask-record.ts";
import { messageName } from "../redis/keys.ts";
import { placeOfMessage } from "../redis/subject-index.ts";
import { type StoredSubject, writeSubjectRow } from "../redis/subject-row.ts";
import { type MessageRow, stateOf } from "../sqlite/track.ts";
import type { Batch } from "./batch.ts";
import { boundsOf, type Carrier, type CarrierParts, carriedMetadata, rowsAtOnce } from "./carrier.ts";

interface Row extends MessageRow {
  asked_at: number | null;
  is_bare: number;
  is_asked: number;
  since: number;
  rank: number;
  next_at: number | null;
  asks: number;
  failures: number;
  misses: number;
  answered_at: number | null;
  released_to: number | null;
}

/** Messages, with what is kept of those that the service is asked about. Their numbers stay. */
export function carryMessages({ source, version }: CarrierParts): Carrier {
  const { db, names } = source;
  const select = db.prepare<[number, number], Row>(
    `SELECT m.*, a.message IS NOT NULL AS is_asked, a.since, a.rank, a.next_at, a.asks, a.failures, a.misses, a.asked_at AS answered_at,
       (SELECT after FROM releases WHERE subject = 2 * m.seq) AS released_to,
       m.registered_at IS NULL AND NOT EXISTS (SELECT 1 FROM events e WHERE e.subject = 2 * m.seq AND e.subject IS NOT NULL) AS is_bare
     FROM messages m LEFT JOIN asks a ON a.message = m.seq WHERE m.seq > ? ORDER BY m.seq LIMIT ?`,
  );

  function put(row: Row, batch: Batch): void {
    const { seq, wamid, registered_at: registeredAt, service_id: serviceId, reference } = row;
    const account = names.nameOf(row.account);
    const name = messageName(account, wamid);
    const stored = storedOf(row);
    batch.set(name, version() + writeSubjectRow(stored));
    batch.member("accounts", account);
    batch.list(registeredAt === null ? "seen:m" : "registered:m", seq, name);
    // Retention finds those that are only seen by what it takes of their events.
    if (row.is_bare === 1) batch.list("bare", 0, name);
    if (registeredAt === null) return;
    if (row.released_to !== null) batch.list("releasing", registeredAt, name);
    batch.list(`${placeOfMessage(stored)}:${account}`, registeredAt, wamid);
    if (serviceId !== null) batch.list(`sid:${serviceId}`, seq, name);
    if (reference !== null) batch.list(`ref:m:${reference}`, seq, name);
    if (row.is_asked === 0) return;
    const { since, asks, failures, misses, answered_at: askedAt, next_at: nextAt } = row;
    batch.hash(`ask:${account}`, wamid, writeAskRecord({ since, asks, failures, misses, askedAt }));
    if (nextAt === null) batch.list(`missing:${account}`, askedAt ?? 0, wamid);
    else batch.list(`asks:${account}`, askScore(row.rank, nextAt), wamid);
  }

  return {
    kind: "messages",
    ...boundsOf(source, "messages"),
    next(after, batch) {
      const rows = select.all(after, rowsAtOnce);
      for (const row of rows) put(row, batch);
      return rows.at(-1)?.seq ?? null;
    },
  };
}

function storedOf(row: Row): StoredSubject {
  const { status, errorCode, times } = stateOf(row);
  return {
    status,
    error: errorCode,
    times: times as Record<string, number>,
    updatedAt: row.updated_at,
    serviceId: row.service_id,
    reference: row.reference,
    conversationId: row.conversation_id,
    metadata: carriedMetadata(row.metadata, `message ${row.seq}`),
    sentAt: row.told_sent_at,
    registeredAt: row.registered_at,
    askedAt: row.asked_at,
    isMissing: row.missing !== null,
    releasedTo: row.released_to,
  };
}
