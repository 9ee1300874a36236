import { historySeries, hourMs, minuteMs, type SeriesName } from "../../model/history.ts";
import { type KeyState, keyStates } from "../../model/send.ts";
import { digestOf } from "../redis/event-rows.ts";
import { fieldOf } from "../redis/history.ts";
import { messageName, placesOfSubject, runName } from "../redis/keys.ts";
import {
  pollScore,
  readRetentionRow,
  retentionRowName,
  type StoredSubject,
  unseenSubject,
  writePassRow,
  writePollRecord,
  writeSubjectRow,
} from "../redis/rows.ts";
import { indexesOf, isOpenRun, placeOfMessage } from "../redis/subjects.ts";
import { createPurged } from "../sqlite/purge.ts";
import type { HydrationPassRow, SendRow } from "../sqlite/rows.ts";
import { type MessageRow, type RunRow, runStateOf, stateOf } from "../sqlite/track.ts";
import { type Batch, boundsOf, type Carrier, type CarrierParts, carriedMetadata, rowsAtOnce } from "./source.ts";

/** The small tables in one batch: plans, stopped routes, secret usage, cursors, daily calls and purge times. */
export function carryWords({ source, version }: CarrierParts): Carrier {
  const { db, names } = source;
  const plans = db.prepare<[], string>("SELECT verdicts FROM plans").pluck();
  const stopped = db.prepare<[], { route: number; at: number; reason: string }>("SELECT route, stopped_at AS at, reason FROM stopped");
  const secretUses = db.prepare<
    [],
    { source: number; secret: number; events: number; duplicates: number; first_at: number; last_at: number }
  >("SELECT * FROM secret_uses");
  const cursors = db.prepare<[], { name: string; seq: number; moved_at: number }>("SELECT * FROM cursors");
  const calls = db.prepare<[], { account: number; day: number; polls: number; others: number }>("SELECT * FROM service_calls");
  const purged = createPurged(db);

  return {
    kind: "plans, cursors, counts",
    first: 1,
    last: 1,
    next(after, batch) {
      if (after > 0) return null;
      for (const verdicts of plans.all()) batch.hash("plans", digestOf(verdicts), verdicts);
      for (const { route, at, reason } of stopped.all()) batch.hash("stopped", names.nameOf(route), JSON.stringify({ at, reason }));
      for (const row of secretUses.all()) {
        const secretUse = `${names.nameOf(row.source)}:${names.nameOf(row.secret)}`;
        batch.hash("usage", `${secretUse}:first`, String(row.first_at), `${secretUse}:last`, String(row.last_at));
        if (row.events > 0) batch.hash("usage", `${secretUse}:events`, String(row.events));
        if (row.duplicates > 0) batch.hash("usage", `${secretUse}:duplicates`, String(row.duplicates));
      }
      for (const { name, seq, moved_at: movedAt } of cursors.all()) {
        batch.set(`cursor:${name}`, version() + String(seq));
        batch.list("cursors", movedAt, name);
      }
      for (const { account, day, polls, others } of calls.all()) {
        batch.hash(`calls:${names.nameOf(account)}`, `${day}:polls`, String(polls), `${day}:others`, String(others));
      }
      const [sweptEvents, sweptDeliveries] = [purged.before("events"), purged.before("deliveries")];
      if (sweptEvents !== null || sweptDeliveries !== null) {
        batch.set(retentionRowName, version() + JSON.stringify({ ...readRetentionRow(null), sweptEvents, sweptDeliveries }));
      }
      const forgotten = purged.before("history");
      if (forgotten !== null) batch.set("forgotten", String(Math.floor(forgotten / hourMs)));
      return 1;
    },
  };
}

interface HistoryRow {
  readonly series: SeriesName;
  readonly subject: number;
  readonly label: string;
  /** Unix minutes. */
  readonly at: number;
  readonly n: number;
}

/** Counts per batch: they are small, and the next batch passes over all earlier ones. */
const countsAtOnce = 1_500;

/** Minutes and hours of the history; `table` is one of its two. */
function carryHistory({ source }: CarrierParts, table: "history_minutes" | "history_hours"): Carrier {
  const { db, names } = source;
  const select = db.prepare<[number, number], HistoryRow>(
    `SELECT c.series, c.subject, c.label, h.at, h.n FROM ${table} h CROSS JOIN history_names c
     WHERE c.id = h.counter ORDER BY h.at, h.counter LIMIT ? OFFSET ?`,
  );
  const isHours = table === "history_hours";
  const minutes = hourMs / minuteMs;
  const count = db.prepare<[], number>(`SELECT count(*) FROM ${table}`).pluck().get() ?? 0;
  return {
    kind: isHours ? "hours of the history" : "minutes of the history",
    first: count === 0 ? 0 : 1,
    last: count,
    next(after, batch) {
      const rows = select.all(countsAtOnce, after);
      for (const { series, subject, label, at, n } of rows) {
        const hour = Math.floor(at / minutes);
        const field = historySeries[series].of === null ? label : fieldOf(names.nameOf(subject), label);
        batch.hash(isHours ? `hh:${series}:${hour}` : `hm:${series}:${at}`, field, String(n));
        batch.list(`${isHours ? "hours" : "minutes"}:${series}`, hour, String(hour));
      }
      return rows.length === 0 ? null : after + rows.length;
    },
  };
}

export const carryHistoryMinutes = (parts: CarrierParts): Carrier => carryHistory(parts, "history_minutes");
export const carryHistoryHours = (parts: CarrierParts): Carrier => carryHistory(parts, "history_hours");

interface StoredMessage extends MessageRow {
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

/** Messages under their numbers, with their polls. */
export function carryMessages({ source, version }: CarrierParts): Carrier {
  const { db, names } = source;
  const select = db.prepare<[number, number], StoredMessage>(
    `SELECT m.*, a.message IS NOT NULL AS is_asked, a.since, a.rank, a.next_at, a.asks, a.failures, a.misses, a.asked_at AS answered_at,
       (SELECT after FROM releases WHERE subject = 2 * m.seq) AS released_to,
       m.registered_at IS NULL AND NOT EXISTS (SELECT 1 FROM events e WHERE e.subject = 2 * m.seq AND e.subject IS NOT NULL) AS is_bare
     FROM messages m LEFT JOIN asks a ON a.message = m.seq WHERE m.seq > ? ORDER BY m.seq LIMIT ?`,
  );

  function put(row: StoredMessage, batch: Batch): void {
    const { seq, wamid, registered_at: registeredAt } = row;
    const account = names.nameOf(row.account);
    const name = messageName(account, wamid);
    const stored = messageOf(row);
    batch.set(name, version() + writeSubjectRow(stored));
    batch.member("accounts", account);
    batch.list(registeredAt === null ? "seen:m" : "registered:m", seq, name);
    for (const place of placesOfSubject(name)) batch.list(place, seq, String(seq));
    // Retention finds other unregistered messages through their events.
    if (row.is_bare === 1) batch.list("bare", 0, name);
    if (registeredAt === null) return;
    if (row.released_to !== null) batch.list("releasing", registeredAt, name);
    batch.list(`${placeOfMessage(stored)}:${account}`, registeredAt, wamid);
    for (const list of indexesOf("", "m", stored)) batch.list(list, seq, name);
    if (row.is_asked === 0) return;
    const { since, asks: polls, failures, misses, answered_at: polledAt, next_at: nextAt } = row;
    batch.hash(`poll:${account}`, wamid, writePollRecord({ since, polls, failures, misses, polledAt }));
    if (nextAt === null) batch.list(`missing:${account}`, polledAt ?? 0, wamid);
    else batch.list(`polls:${account}`, pollScore(row.rank, nextAt), wamid);
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

function messageOf(row: StoredMessage): StoredSubject {
  return {
    ...stateOf(row),
    updatedAt: row.updated_at,
    serviceId: row.service_id,
    reference: row.reference,
    conversationId: row.conversation_id,
    metadata: carriedMetadata(row.metadata, `message ${row.seq}`),
    sentAt: row.told_sent_at,
    registeredAt: row.registered_at,
    readAt: row.asked_at,
    isMissing: row.missing !== null,
    releasedTo: row.released_to,
  };
}

type StoredRun = RunRow & { is_bare: number; released_to: number | null };

/** Runs, under their numbers. */
export function carryRuns({ source, version }: CarrierParts): Carrier {
  const { db, names } = source;
  const select = db.prepare<[number, number], StoredRun>(
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
        const stored = runOf(row);
        const { registeredAt } = stored;
        batch.set(name, version() + writeSubjectRow(stored));
        batch.member("accounts", account);
        batch.list(registeredAt === null ? "seen:r" : "registered:r", row.seq, name);
        for (const place of placesOfSubject(name)) batch.list(place, row.seq, String(row.seq));
        if (registeredAt !== null && row.released_to !== null) batch.list("releasing", registeredAt, name);
        if (row.is_bare === 1) batch.list("bare", 0, name);
        if (registeredAt !== null && isOpenRun(stored)) batch.list(`runs:${account}`, registeredAt, row.run_id);
        if (registeredAt !== null) for (const list of indexesOf("", "r", stored)) batch.list(list, row.seq, name);
      }
      return rows.at(-1)?.seq ?? null;
    },
  };
}

function runOf(row: StoredRun): StoredSubject {
  return {
    ...unseenSubject,
    ...runStateOf(row),
    updatedAt: row.updated_at,
    reference: row.reference,
    metadata: carriedMetadata(row.metadata, `run ${row.seq}`),
    registeredAt: row.registered_at,
    releasedTo: row.released_to,
  };
}

/** Hydration passes. An open one continues, and the calls of the others still count. */
export function carryPasses({ source, version }: CarrierParts): Carrier {
  const { db, names } = source;
  const select = db.prepare<[number, number], HydrationPassRow>("SELECT * FROM hydration_passes WHERE seq > ? ORDER BY seq LIMIT ?");
  return {
    kind: "hydration_passes",
    ...boundsOf(source, "hydration_passes"),
    next(after, batch) {
      const rows = select.all(after, rowsAtOnce);
      for (const { seq, account: accountId, through, started_at: startedAt, asked: polled, ended_at: endedAt } of rows) {
        const account = names.nameOf(accountId);
        // The Redis engine names passes by random texts, so a number of the file cannot collide.
        if (endedAt === null) batch.set(`pass:${account}`, version() + writePassRow({ seq, through, startedAt, polled }));
        else if (polled > 0) batch.list(`passes:${account}`, endedAt, `${seq}:${polled}`);
      }
      return rows.at(-1)?.seq ?? null;
    },
  };
}

/** Idempotency keys of sends, and references of runs. The result of a call that its process did not finish is unknown. */
export function carrySends({ source, version }: CarrierParts): Carrier {
  const { db, names } = source;
  const select = db.prepare<[number, number], SendRow>("SELECT * FROM sends WHERE seq > ? ORDER BY seq LIMIT ?");
  return {
    kind: "keys of sends",
    ...boundsOf(source, "sends"),
    next(after, batch) {
      const rows = select.all(after, rowsAtOnce);
      for (const { account: accountId, kind, key, fingerprint, tries, about, caller, started_at: startedAt, ...row } of rows) {
        const account = names.nameOf(accountId);
        const known: KeyState = keyStates[row.state] ?? "unknown";
        const state: KeyState = known === "calling" ? "unknown" : known;
        const answer = row.answer === null ? null : JSON.parse(row.answer);
        const send = JSON.stringify({ state, fingerprint, tries, about, caller, startedAt, answer });
        batch.set(`s:${kind}:${account}:${key}`, version() + send);
        if (kind === 0) batch.list("sends", startedAt, `${account}:${key}`);
      }
      return rows.at(-1)?.seq ?? null;
    },
  };
}

interface StoredRequest {
  seq: number;
  request: string;
  id: string;
  until: number;
}

/** The event ids of signed automation requests, until they expire. */
export function carryRequests({ source }: CarrierParts): Carrier {
  const select = source.db.prepare<[number, number], StoredRequest>("SELECT * FROM requests WHERE seq > ? ORDER BY seq LIMIT ?");
  return {
    kind: "automation requests",
    ...boundsOf(source, "requests"),
    next(after, batch) {
      const rows = select.all(after, rowsAtOnce);
      for (const { request, id, until } of rows) batch.expiring(`req:${request}`, id, until);
      return rows.at(-1)?.seq ?? null;
    },
  };
}
