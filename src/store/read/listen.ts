import type {
  ListenedContent,
  ListenedEvent,
  ListenPage,
  ListenRow,
} from "../../model/endpoints/stream.ts";
import { origins } from "../../model/event.ts";
import { seqsBetween } from "../../model/ids.ts";
import { dispositions } from "../../model/states.ts";
import type { OpenPage, Wanted } from "../port.ts";
import { unpackEventId, unpackHeaders } from "../schema/codes.ts";
import { events, subjects } from "../schema/tables.ts";
import { ask, find, first, look, rows, type Work } from "../sql/ops.ts";
import { as, hexOf, pick, type RowFrom, select, sql, typed } from "../sql/sql.ts";
import { boundsOf } from "./pages.ts";

const e = as(events, "e");
const s = as(subjects, "s");
const listed = select({
  ...pick(e, "seq", "account", "source", "origin", "status", "disposition"),
  event: e.kind,
  id: typed<string | null>(hexOf(e.id)),
  receivedAt: e.received_at,
  size: typed<number>(sql`length(e.body)`),
  type: typed<number | null>(s.type),
  name: typed<string | null>(s.name),
  registeredAt: s.registered_at,
});
type Row = RowFrom<typeof listed>;
const content = look(events, ["seq"], ["format", "headers", "body"]);

/** A page is made in one turn of the event loop. */
const most = { rows: 512, bytes: 64 * 1024 };
/** With large bodies, more would be read in vain. */
const firstRows = 32;

/**
 * The wanted events after `start`, up to `until`; there may be none. On PostgreSQL a rolled back
 * transaction leaves a gap, too: at most so many events are missing.
 */
export function* listenPage(start: number, until: number, wanted: Wanted): Work<OpenPage> {
  const { chosen, ...page } = yield* choose(start, until, wanted);
  const contents = yield* ask(find(content, chosen, ({ seq }) => [seq]));
  const shown = chosen.flatMap((row, place): ListenedEvent[] => {
    const stored = contents[place];
    // Deleted by retention meanwhile.
    if (stored === undefined) return [];
    const read: ListenedContent = {
      format: stored.format,
      headers: unpackHeaders(stored.headers),
      body: stored.body,
    };
    return [{ ...row, content: () => read }];
  });
  return (use) =>
    use({ ...page, events: wanted.event === null ? shown : shown.filter(wanted.event) });
}

function* choose(
  start: number,
  until: number,
  wanted: Wanted,
): Work<Omit<ListenPage, "events"> & { readonly chosen: ListenRow[] }> {
  const chosen: ListenRow[] = [];
  let [through, bytes, examined] = [start, 0, 0];
  let missing: ListenPage["missing"] = null;
  for (
    let size = firstRows;
    examined < most.rows;
    size = Math.min(2 * size, most.rows - examined)
  ) {
    const found = yield* rows(
      listed`FROM events e LEFT JOIN subjects s ON s.seq = e.subject
        WHERE e.seq > ${through} AND e.seq <= ${until} ORDER BY e.seq LIMIT ${size}`,
    );
    for (const row of found) {
      if (bytes >= most.bytes) return { chosen, through, missing, atEnd: false };
      missing = withGap(missing, through, row.seq);
      through = row.seq;
      const shown = viewOf(row);
      if (shown === null || !wanted.row(shown)) continue;
      bytes += row.size;
      chosen.push(shown);
    }
    examined += found.length;
    if (found.length < size) return { chosen, through, missing, atEnd: true };
  }
  return { chosen, through, missing, atEnd: false };
}

function withGap(
  missing: ListenPage["missing"],
  through: number,
  seq: number,
): ListenPage["missing"] {
  const count = seqsBetween(through, seq - 1);
  return count === 0
    ? missing
    : { from: missing?.from ?? through + 1, to: seq - 1, count: count + (missing?.count ?? 0) };
}

function viewOf({ id, event, type, name, registeredAt, size: _, ...row }: Row): ListenRow | null {
  if (id === null || event === null) return null;
  return {
    ...row,
    id: unpackEventId(id),
    event,
    origin: origins[row.origin] ?? "webhook",
    disposition: dispositions[row.disposition] ?? "filtered",
    subject: name === null ? null : { type: type === 0 ? "message" : "run", key: name },
    tracked: registeredAt !== null,
  };
}

type Ends = { readonly oldest: number; readonly newest: number; readonly oldestAt: number | null };

/**
 * Smallest and greatest seq up to `until`, 0 when there are no events; `oldestAt` is when the
 * oldest was received.
 */
export function* listenEnds(until: number): Work<Ends> {
  const bounds = yield* boundsOf("events");
  if (bounds === null) return { oldest: 0, newest: 0, oldestAt: null };
  const { oldest, newest } = bounds;
  // Retention has deleted all up to `until`: listeners there have lost nothing.
  if (oldest > until) return { oldest: 0, newest: until, oldestAt: null };
  return {
    oldest,
    newest: Math.min(newest, until),
    oldestAt: (yield* firstFrom(oldest, until))?.receivedAt ?? null,
  };
}

function* firstFrom(
  seq: number,
  until: number,
): Work<{ readonly seq: number; readonly receivedAt: number } | null> {
  return yield* first(
    select({
      seq: e.seq,
      receivedAt: e.received_at,
    })`FROM events e WHERE e.seq >= ${seq} AND e.seq <= ${until} ORDER BY e.seq LIMIT 1`,
  );
}

/** A binary search for the seq before the first event received at `time`. */
export function* seqBefore(time: number, until: number): Work<number> {
  const { oldest, newest } = yield* listenEnds(until);
  if (oldest === 0) return newest;
  let [before, last] = [oldest - 1, newest];
  while (before < last) {
    const middle = before + Math.floor((last - before) / 2) + 1;
    const found = yield* firstFrom(middle, until);
    if (found !== null && found.receivedAt < time) before = found.seq;
    else last = middle - 1;
  }
  return before;
}
