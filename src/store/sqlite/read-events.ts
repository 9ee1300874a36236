import { hasIdLength } from "../../model/ids.ts";
import {
  type EventDetail,
  type EventFilter,
  type EventsListed,
  type EventView,
  type Held,
  releaseView,
  type SeqBounds,
  type WaitingEvents,
} from "../views.ts";
import { createReadHydrations } from "./hydrations.ts";
import {
  dispositionCode,
  dispositionList,
  messageSubject,
  type Names,
  originList,
  packEventId,
  runSubject,
  stateCode,
  unpackEventId,
} from "./names.ts";
import type { Db } from "./open.ts";
import type { Plans } from "./plans.ts";

interface Row {
  seq: number;
  account: number;
  id: Buffer | string | null;
  kind: number | null;
  source: number;
  origin: number;
  received_at: number;
  created_at: number | null;
  secret: number | null;
  wamid: string | null;
  run_id: string | null;
  status: string | null;
  previous_status: string | null;
  moved: number;
  error_code: string | null;
  disposition: number;
  parked_until: number | null;
  duplicates: number;
  conflicts: number;
  fault: string | null;
  size: number;
  plan: number | null;
  release: number | null;
  headers: string | null;
  body: Buffer;
}

const from = `FROM events e
  LEFT JOIN messages m ON e.subject % 2 = 0 AND m.seq = e.subject / 2
  LEFT JOIN runs r ON e.subject % 2 = 1 AND r.seq = e.subject / 2`;
const columns = `e.seq, e.account, e.id, e.kind, e.source, e.origin, e.received_at, e.created_at, e.secret, m.wamid, r.run_id, e.status,
  e.previous_status, e.moved, e.error_code, e.disposition, e.parked_until, e.duplicates, e.conflicts, e.fault, length(e.body) AS size, e.plan, e.release`;

export function createReadEvents(db: Db, names: Names, plans: Plans) {
  const hydrations = createReadHydrations(db);
  const bySeq = db.prepare<[number], Row>(`SELECT ${columns}, e.headers, e.body ${from} WHERE e.seq = ?`);
  const bounds = db.prepare<[], { oldest: number | null; newest: number | null }>(
    "SELECT (SELECT min(seq) FROM events) AS oldest, (SELECT max(seq) FROM events) AS newest",
  );
  const latest = db.prepare<[number, number], number | null>("SELECT max(received_at) FROM events WHERE seq > ? AND seq < ?").pluck();
  const seqsById = db
    .prepare<[Buffer | string], number>("SELECT seq FROM events WHERE account IN (SELECT id FROM names WHERE kind = 'account') AND id = ?")
    .pluck();

  function view(row: Row): EventView {
    const key = row.wamid ?? row.run_id;
    return {
      seq: row.seq,
      id: unpackEventId(row.id),
      event: row.kind === null ? null : names.nameOf(row.kind),
      account: names.nameOf(row.account),
      source: names.nameOf(row.source),
      origin: originList[row.origin] ?? "webhook",
      receivedAt: row.received_at,
      createdAt: row.created_at,
      secret: row.secret === null ? null : names.nameOf(row.secret),
      subject: key === null ? null : { type: row.wamid !== null ? "message" : "run", key },
      status: row.status,
      previousStatus: row.previous_status,
      transition: row.moved === 1,
      errorCode: row.error_code,
      disposition: dispositionList[row.disposition] ?? "filtered",
      parkedUntil: row.parked_until,
      duplicates: row.duplicates,
      conflicts: row.conflicts,
      fault: row.fault,
      ...releaseView(dispositionList[row.disposition], row.release),
      size: row.size,
    };
  }

  function conditions(filter: EventFilter): { sql: string[]; values: Record<string, unknown> } | null {
    const sql: string[] = [];
    const values: Record<string, unknown> = { limit: filter.limit };
    for (const [column, kind, name] of [
      ["kind", "kind", filter.event],
      ["source", "source", filter.source],
      ["account", "account", filter.account],
    ] as const) {
      if (name === undefined) continue;
      const id = names.find(kind, name);
      if (id === null) return null;
      sql.push(`e.${column} = @${column}`);
      values[column] = id;
    }
    if (filter.status !== undefined) sql.push("e.status = @status");
    // The plus stops SQLite from using the index of that disposition, which it would have to sort for one page.
    if (filter.disposition !== undefined) sql.push(`+e.disposition = ${dispositionCode[filter.disposition]}`);
    if (filter.wamid !== undefined)
      sql.push(
        "e.subject IN (SELECT seq * 2 FROM messages WHERE account IN (SELECT id FROM names WHERE kind = 'account') AND wamid = @wamid)",
      );
    if (filter.from !== undefined) sql.push("e.received_at >= @from");
    if (filter.to !== undefined) sql.push("e.received_at < @to");
    if (filter.before !== undefined) sql.push("e.seq < @before");
    if (filter.after !== undefined) sql.push("e.seq > @after");
    for (const name of ["status", "wamid", "from", "to", "before", "after"] as const) {
      if (filter[name] !== undefined) values[name] = filter[name];
    }
    return { sql, values };
  }

  return {
    list(filter: EventFilter): EventsListed {
      const condition = conditions(filter);
      if (condition === null) return { events: [], unseen: 0 };
      const where = condition.sql.length === 0 ? "" : `WHERE ${condition.sql.join(" AND ")}`;
      const rows = db
        .prepare<[Record<string, unknown>], Row>(`SELECT ${columns} ${from} ${where} ORDER BY e.seq DESC LIMIT @limit`)
        .all(condition.values);
      return { events: rows.map(view), unseen: 0 };
    },
    get(seq: number): EventDetail | null {
      const row = bySeq.get(seq);
      if (row === undefined) return null;
      return {
        ...view(row),
        headers: row.headers === null ? {} : (JSON.parse(row.headers) as Record<string, string>),
        body: row.body,
        verdicts: row.plan === null ? [] : plans.verdictsOf(row.plan),
        hydration: hydrations.view(row.seq),
      };
    },
    /** The smallest and greatest seq; null when there are no events. */
    bounds(): SeqBounds {
      const { oldest, newest } = bounds.get() ?? { oldest: null, newest: null };
      return oldest === null || newest === null ? null : { oldest, newest };
    },
    /** When the last event between two seqs was received, in unix ms. Null: no events. */
    latestReceived: (after: number, before: number): number | null => latest.get(after, before) ?? null,
    /** The seqs of an event id, one per account that has it. */
    seqsOf(id: string): number[] {
      return hasIdLength(id) ? seqsById.all(packEventId(id)) : [];
    },
  };
}

/** The reads of `explain` beside the views of events, messages and deliveries. */
export function createReadStories(db: Db, names: Names) {
  const messageSeq = db.prepare<[number, string], number>("SELECT seq FROM messages WHERE account = ? AND wamid = ?").pluck();
  const runSeq = db.prepare<[number, string], number>("SELECT seq FROM runs WHERE account = ? AND run_id = ?").pluck();
  const events = db
    .prepare<[number, number, number], number>("SELECT seq FROM events WHERE subject = ? AND seq > ? ORDER BY seq LIMIT ?")
    .pluck();
  const subjectOf = db.prepare<[number, number], number | null>("SELECT subject FROM deliveries WHERE event = ? AND route = ?").pluck();
  const open = "FROM deliveries WHERE subject = ? AND route = ? AND state <= 1 AND subject IS NOT NULL";
  const first = db.prepare<[number, number], number>(`SELECT event ${open} AND state = ${stateCode.waiting} LIMIT 1`).pluck();
  const ahead = db.prepare<[number, number, number], number>(`SELECT count(*) ${open} AND state = ${stateCode.held} AND event < ?`).pluck();
  const stopped = db.prepare<[number], string>("SELECT reason FROM stopped WHERE route = ?").pluck();
  const paused = db.prepare<[number], { breaker: string; until: number }>("SELECT breaker, until FROM paused WHERE route = ?");

  return {
    /** Seqs of the events about a message or run, oldest first. */
    eventsOf(type: "message" | "run", account: string, key: string, after: number, limit: number): number[] {
      const id = names.find("account", account);
      if (id === null) return [];
      const seq = (type === "message" ? messageSeq : runSeq).get(id, key);
      if (seq === undefined) return [];
      return events.all(type === "message" ? messageSubject(seq) : runSubject(seq), after, limit);
    },
    /** None: the transaction that accepts an event plans it. */
    waitingOf: (): WaitingEvents => ({ events: [], unseen: 0 }),
    ahead: (): null => null,
    /** The deliveries that a held one waits for. Null: it is not held any more. */
    held(event: number, route: string): Held | null {
      const id = names.find("route", route);
      const subject = id === null ? null : (subjectOf.get(event, id) ?? null);
      if (id === null || subject === null) return null;
      const behind = first.get(subject, id);
      return behind === undefined ? null : { behind, ahead: ahead.get(subject, id, event) ?? 0 };
    },
    /** Why the destination of a route is stopped. Null: it is not. */
    stopReason(route: string): string | null {
      const id = names.find("route", route);
      return id === null ? null : (stopped.get(id) ?? null);
    },
    /** The pause that the destination of a route asked for: until when (unix ms), and under which settings. Null: none. */
    pauseOf(route: string): { readonly breaker: string; readonly until: number } | null {
      const id = names.find("route", route);
      return id === null ? null : (paused.get(id) ?? null);
    },
  };
}
