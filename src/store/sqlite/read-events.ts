import { hasIdLength } from "../../model/ids.ts";
import { fewestPhoneDigits, parseMask } from "../../model/mask.ts";
import { type EventDetail, type EventFilter, type EventsAbout, type EventsListed, type EventView, releaseView } from "../views.ts";
import type { Db } from "./file.ts";
import { createReadHydrations } from "./hydrations.ts";
import { dispositionCode, dispositionList, type Names, originList, packEventId, unpackEventId } from "./names.ts";
import type { Plans } from "./plans.ts";
import { addPhoneEnds, createBounds, joinConditions } from "./query.ts";
import type { EventRow } from "./rows.ts";

interface Row extends EventRow {
  wamid: string | null;
  run_id: string | null;
  size: number;
}

const from = `FROM events e
  LEFT JOIN messages m ON e.subject % 2 = 0 AND m.seq = e.subject / 2
  LEFT JOIN runs r ON e.subject % 2 = 1 AND r.seq = e.subject / 2`;
const columns = `e.seq, e.account, e.id, e.kind, e.source, e.origin, e.received_at, e.created_at, e.secret, m.wamid, r.run_id, e.status,
  e.previous_status, e.moved, e.error_code, e.disposition, e.parked_until, e.duplicates, e.conflicts, e.fault, length(e.body) AS size, e.plan, e.release`;

const indexedAbout = `e.seq IN (SELECT value FROM json_each(@seqs)
  UNION SELECT seq FROM events WHERE subject IN (SELECT value FROM json_each(@subjects)))`;
/** For the events of many messages: the row of each event's message is compared. */
const anyAbout = `(e.seq IN (SELECT value FROM json_each(@seqs)) OR e.subject IN (SELECT value FROM json_each(@subjects))
  OR m.reference = @aboutReference OR r.reference = @aboutReference
  OR (m.phone = CAST(substr(@phone, ${-fewestPhoneDigits}) AS INTEGER) AND phone_ends(m.wamid, @phone)))`;

export function createReadEvents(db: Db, names: Names, plans: Plans) {
  addPhoneEnds(db);
  const hydrations = createReadHydrations(db);
  const bySeq = db.prepare<[number], Row>(`SELECT ${columns}, e.headers, e.body ${from} WHERE e.seq = ?`);
  const latest = db.prepare<[number, number], number | null>("SELECT max(received_at) FROM events WHERE seq > ? AND seq < ?").pluck();
  const seqsById = db
    .prepare<[Buffer | string], number>("SELECT seq FROM events WHERE account IN (SELECT id FROM names WHERE kind = 'account') AND id = ?")
    .pluck();
  const seqsByMask = db.prepare<[number], number>("SELECT seq FROM events WHERE mask = ? ORDER BY seq LIMIT 100").pluck();

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

  const subjectNumbers = {
    message: db.prepare<[number, string], number>("SELECT 2 * seq FROM messages WHERE account = ? AND wamid = ?").pluck(),
    run: db.prepare<[number, string], number>("SELECT 2 * seq + 1 FROM runs WHERE account = ? AND run_id = ?").pluck(),
  };

  function aboutValues(about: EventsAbout | undefined): Record<string, string> {
    if (about === undefined) return {};
    const { seqs, subjects, phone = "", reference } = about;
    const numbers = subjects.map(({ type, account, key }) => subjectNumbers[type].get(names.find("account", account) ?? -1, key));
    const known = { seqs: JSON.stringify(seqs), subjects: JSON.stringify(numbers.filter((number) => number !== undefined)) };
    // A value that SQLite compares with a reference; no reference is empty.
    return phone === "" && reference === undefined ? known : { ...known, phone, aboutReference: reference ?? "" };
  }

  /** The number of a name that a filter gives. Null: the name is unknown, so nothing matches. */
  const numberOf = (kind: "account" | "kind" | "source", name: string | undefined): number | null | undefined =>
    name === undefined ? undefined : names.find(kind, name);

  return {
    list(filter: EventFilter): EventsListed {
      const { status, disposition, errorCode, wamid, about, from: since, to, before, after, limit } = filter;
      const [kind, source, account] = [
        numberOf("kind", filter.event),
        numberOf("source", filter.source),
        numberOf("account", filter.account),
      ];
      if (kind === null || source === null || account === null) return { events: [], unseen: 0 };
      const { where, values } = joinConditions(
        [
          ["e.kind = @kind", kind],
          ["e.source = @source", source],
          ["e.account = @account", account],
          ["e.status = @status", status],
          ["e.error_code = @errorCode", errorCode],
          // The index of quarantined events is in the order of the list. The plus stops SQLite from using the one of ignored
          // events, which it would have to sort for one page.
          [`e.disposition = ${dispositionCode.quarantined}`, disposition === "quarantined"],
          ["+e.disposition = @disposition", disposition && dispositionCode[disposition]],
          [
            "e.subject IN (SELECT seq * 2 FROM messages WHERE account IN (SELECT id FROM names WHERE kind = 'account') AND wamid = @wamid)",
            wamid,
          ],
          [about?.phone === undefined && about?.reference === undefined ? indexedAbout : anyAbout, about !== undefined],
          ["e.received_at >= @since", since],
          ["e.received_at < @to", to],
          ["e.seq < @before", before],
          ["e.seq > @after", after],
        ],
        { limit, ...aboutValues(about) },
      );
      const rows = db
        .prepare<[typeof values], Row>(`SELECT ${columns} ${from} WHERE ${where} ORDER BY e.seq DESC LIMIT @limit`)
        .all(values);
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
    bounds: createBounds(db, "events"),
    latestReceived: (after: number, before: number): number | null => latest.get(after, before) ?? null,
    seqsOf(id: string): number[] {
      const found = hasIdLength(id) ? seqsById.all(packEventId(id)) : [];
      const mask = parseMask("event", id);
      return found.length > 0 || mask === null ? found : seqsByMask.all(mask);
    },
  };
}
