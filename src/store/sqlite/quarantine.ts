import type { ReceivedEvent } from "../../model/event.ts";
import type { QuarantinedEvent, QuarantinedFound, QuarantineFilter, ReleasedEvent, ReplayCursor } from "../port.ts";
import type { AcceptOutcome } from "../rules.ts";
import type { Db } from "./file.ts";
import type { HistoryWriter } from "./history.ts";
import { dispositionCode, type Names, originList } from "./names.ts";
import type { EventRow } from "./rows.ts";

type Row = Pick<EventRow, "seq" | "account" | "source" | "origin" | "received_at" | "headers" | "body">;

const columns = "seq, account, source, origin, received_at, headers, body";
const isQuarantined = `disposition = ${dispositionCode.quarantined}`;

/** Release from quarantine. `accept` runs inside the transaction. */
export function createQuarantine(
  db: Db,
  names: Names,
  accept: (event: ReceivedEvent, proxyRoute: null) => AcceptOutcome,
  history: Pick<HistoryWriter, "move">,
) {
  const one = db.prepare<[number], Row>(`SELECT ${columns} FROM events WHERE seq = ? AND ${isQuarantined}`);
  const next = db.prepare<[{ at: number; seq: number; limit: number }], Row>(
    `SELECT ${columns} FROM events INDEXED BY events_quarantined
     WHERE ${isQuarantined} AND (received_at, seq) > (@at, @seq) ORDER BY received_at, seq LIMIT @limit`,
  );
  const mark = db.prepare<[number, number]>(`UPDATE events SET disposition = ${dispositionCode.released}, release = ? WHERE seq = ?`);

  function view({ seq, account, source, origin, received_at: receivedAt, headers, body }: Row): QuarantinedEvent {
    return {
      seq,
      account: names.nameOf(account),
      source: names.nameOf(source),
      origin: originList[origin] ?? "webhook",
      receivedAt,
      headers: headers === null ? {} : (JSON.parse(headers) as Record<string, string>),
      body,
    };
  }

  return {
    one(seq: number): QuarantinedEvent | null {
      const row = one.get(seq);
      return row === undefined ? null : view(row);
    },
    look({ source, from = 0, to = cursorEnd }: QuarantineFilter, cursor: ReplayCursor, limit: number): QuarantinedFound {
      const only = source === undefined ? undefined : names.find("source", source);
      if (only === null) return { found: [], cursor: null };
      const route = Number(cursor.route);
      const start = route < from ? { at: from, seq: 0 } : { at: route, seq: cursor.event };
      const rows = next.all({ ...start, limit });
      const last = rows.at(-1);
      const found = rows.filter(
        (row) => row.received_at < to && row.received_at <= cursor.since && (only === undefined || row.source === only),
      );
      const isOver = last === undefined || rows.length < limit || last.received_at >= to;
      return { found: found.map(view), cursor: isOver ? null : { since: cursor.since, event: last.seq, route: last.received_at } };
    },
    /** Call it inside a transaction. */
    release(event: ReleasedEvent): AcceptOutcome | null {
      const row = one.get(event.releaseOf);
      if (row === undefined) return null;
      const outcome = accept(event, null);
      mark.run(outcome.seq, event.releaseOf);
      history.move(row.source, row.received_at, dispositionCode.quarantined, dispositionCode.released);
      return outcome;
    },
  };
}

const cursorEnd = Number.MAX_SAFE_INTEGER;
