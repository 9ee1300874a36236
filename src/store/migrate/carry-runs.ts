import { runName } from "../redis/keys.ts";
import { isOpenRun } from "../redis/subject-index.ts";
import { type StoredSubject, unseenSubject, writeSubjectRow } from "../redis/subject-row.ts";
import { type RunRow, runStateOf } from "../sqlite/track.ts";
import { boundsOf, type Carrier, type CarrierParts, carriedMetadata, rowsAtOnce } from "./carrier.ts";

type Row = RunRow & { is_bare: number; released_to: number | null };

/** Runs, under their numbers. */
export function carryRuns({ source, version }: CarrierParts): Carrier {
  const { db, names } = source;
  const select = db.prepare<[number, number], Row>(
    `SELECT r.*, r.registered_at IS NULL
       AND NOT EXISTS (SELECT 1 FROM events e WHERE e.subject = 2 * r.seq + 1 AND e.subject IS NOT NULL) AS is_bare,
       (SELECT after FROM releases WHERE subject = 2 * r.seq + 1) AS released_to
     FROM runs r WHERE r.seq > ? ORDER BY r.seq LIMIT ?`,
  );
  return {
    kind: "runs",
    ...boundsOf(source, "runs"),
    next(after, batch) {
      const rows = select.all(after, rowsAtOnce);
      for (const row of rows) {
        const account = names.nameOf(row.account);
        const name = runName(account, row.run_id);
        const stored = storedOf(row);
        const { reference, registeredAt } = stored;
        batch.set(name, version() + writeSubjectRow(stored));
        batch.member("accounts", account);
        batch.list(registeredAt === null ? "seen:r" : "registered:r", row.seq, name);
        if (registeredAt !== null && row.released_to !== null) batch.list("releasing", registeredAt, name);
        if (row.is_bare === 1) batch.list("bare", 0, name);
        if (registeredAt !== null && isOpenRun(stored)) batch.list(`runs:${account}`, registeredAt, row.run_id);
        if (registeredAt !== null && reference !== null) batch.list(`ref:r:${reference}`, row.seq, name);
      }
      return rows.at(-1)?.seq ?? null;
    },
  };
}

function storedOf(row: Row): StoredSubject {
  const { status, error, times } = runStateOf(row);
  return {
    ...unseenSubject,
    status,
    error,
    times: times as Record<string, number>,
    updatedAt: row.updated_at,
    reference: row.reference,
    metadata: carriedMetadata(row.metadata, `run ${row.seq}`),
    registeredAt: row.registered_at,
    releasedTo: row.released_to,
  };
}
