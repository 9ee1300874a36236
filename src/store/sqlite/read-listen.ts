import type { ListenedContent, ListenedEvent, ListenPage, ListenRow } from "../../model/listen.ts";
import type { Wanted } from "../reading.ts";

import type { Db } from "./file.ts";
import { dispositionList, type Names, originList, unpackEventId } from "./names.ts";
import { createBounds } from "./query.ts";
import type { EventRow } from "./rows.ts";

interface Row extends Pick<EventRow, "seq" | "account" | "id" | "kind" | "source" | "origin" | "received_at" | "status" | "disposition"> {
  size: number;
  wamid: string | null;
  run_id: string | null;
  registered_at: number | null;
}

/** Most rows read for a page, and most bytes of bodies: it is made in one turn of the event loop. */
const most = { rows: 512, bytes: 64 * 1024 };
/** Rows per read. With large bodies, more would be read in vain. */
const stepRows = 32;

/** Events in the order of their seq, for listeners. */
export function createReadListen(db: Db, names: Names) {
  const after = db.prepare<[number, number], Row>(`
    SELECT e.seq, e.account, e.id, e.kind, e.source, e.origin, e.received_at, e.status, e.disposition, length(e.body) AS size, m.wamid, r.run_id,
      coalesce(m.registered_at, r.registered_at) AS registered_at
    FROM events e
    LEFT JOIN messages m ON e.subject % 2 = 0 AND m.seq = e.subject / 2
    LEFT JOIN runs r ON e.subject % 2 = 1 AND r.seq = e.subject / 2
    WHERE e.seq > +? ORDER BY e.seq LIMIT +?`);
  const content = db.prepare<[number], { headers: string | null; body: Buffer }>("SELECT headers, body FROM events WHERE seq = ?");
  const bounds = createBounds(db, "events");
  const at = db.prepare<[number], { seq: number; received_at: number }>(
    "SELECT seq, received_at FROM events WHERE seq >= +? ORDER BY seq LIMIT 1",
  );

  /** Up to a page of them. */
  function* rowsAfter(start: number): Generator<Row> {
    let from = start;
    for (let left = most.rows; left > 0; left -= stepRows) {
      const rows = after.all(from, stepRows);
      yield* rows;
      if (rows.length < stepRows) return;
      from = rows.at(-1)?.seq ?? from;
    }
  }

  function read(seq: number): ListenedContent {
    const { headers, body } = content.get(seq) ?? { headers: null, body: Buffer.alloc(0) };
    return { headers: headers === null ? {} : (JSON.parse(headers) as Record<string, string>), body };
  }

  function view(row: Row): ListenRow | null {
    const id = unpackEventId(row.id);
    // A quarantined body is not an event.
    if (id === null || row.kind === null) return null;
    const key = row.wamid ?? row.run_id;
    return {
      seq: row.seq,
      id,
      event: names.nameOf(row.kind),
      source: names.nameOf(row.source),
      account: names.nameOf(row.account),
      origin: originList[row.origin] ?? "webhook",
      receivedAt: row.received_at,
      disposition: dispositionList[row.disposition] ?? "filtered",
      status: row.status,
      subject: key === null ? null : { type: row.wamid !== null ? "message" : "run", key },
      tracked: row.registered_at !== null,
    };
  }

  return {
    /**
     * The next wanted events after `start`. Only retention leaves gaps between seqs, so the count of missing events is exact.
     * A page may be empty before the end.
     */
    page(start: number, wanted: Wanted): ListenPage {
      const events: ListenedEvent[] = [];
      let through = start;
      let missing = null as ListenPage["missing"];
      let bytes = 0;
      let looked = 0;
      for (const row of rowsAfter(start)) {
        if (bytes >= most.bytes) return { events, through, missing, atEnd: false };
        if (row.seq > through + 1) {
          const count: number = row.seq - through - 1 + (missing?.count ?? 0);
          missing = { from: missing?.from ?? through + 1, to: row.seq - 1, count };
        }
        through = row.seq;
        looked += 1;
        const shown = view(row);
        if (shown === null || !wanted.row(shown)) continue;
        bytes += row.size;
        const event = { ...shown, content: () => read(row.seq) };
        if (wanted.event === null || wanted.event(event)) events.push(event);
      }
      return { events, through, missing, atEnd: looked < most.rows };
    },
    ends(): { oldest: number; newest: number; oldestAt: number | null } {
      const { oldest, newest } = bounds() ?? { oldest: 0, newest: 0 };
      return { oldest, newest, oldestAt: at.get(oldest)?.received_at ?? null };
    },
    /** The seq before the first event received at `time` (unix ms) or later. A binary search, as events are stored in the order received. */
    seqBefore(time: number): number {
      const ends = bounds();
      if (ends === null) return 0;
      let before = ends.oldest - 1;
      let last = ends.newest;
      while (before < last) {
        const middle = before + Math.floor((last - before) / 2) + 1;
        const found = at.get(middle);
        // The found event is the first one at `middle` or after it.
        if (found !== undefined && found.received_at < time) before = found.seq;
        else last = middle - 1;
      }
      return before;
    },
  };
}
