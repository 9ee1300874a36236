import { origins, type QuarantinedBody } from "../../model/event.ts";
import { minuteMs } from "../../model/history.ts";
import type { QuarantinedEvent, QuarantineFilter } from "../port.ts";
import { codeOf, packHeaders, unpackHeaders } from "../schema/codes.ts";
import type { RowOf } from "../schema/table.ts";
import { events } from "../schema/tables.ts";
import { ask, first, insert, numbers, rows, type Work } from "../sql/ops.ts";
import { as, raw, select, sql } from "../sql/sql.ts";
import { type Counts, countSecret } from "./counts.ts";

type EventRow = RowOf<typeof events>;

/** Stores verified bodies without a valid envelope. Returns their seqs. The caller writes the counts. */
export function* storeQuarantined(bodies: readonly QuarantinedBody[], counts: Counts): Work<readonly number[]> {
  const seqs = yield* ask(numbers(events, bodies.length));
  for (const body of bodies) {
    const { account, source, receivedAt } = body;
    countSecret(counts, body, "secret");
    counts.add({ at: Math.floor(receivedAt / minuteMs), account, series: "events", of: source, label: "quarantined" }, 1);
  }
  yield insert(
    events,
    bodies.map((body, place) => rowOf(seqs[place] as number, body)),
  );
  return seqs;
}

const blank = Object.fromEntries(events.names.map((name) => [name, null])) as { [Name in keyof EventRow]: null };

function rowOf(seq: number, { account, source, origin, receivedAt, secret, error, headers, body }: QuarantinedBody): EventRow {
  return {
    ...blank,
    seq,
    account,
    source,
    origin: codeOf.origin[origin],
    received_at: receivedAt,
    secret,
    moved: 0,
    disposition: codeOf.disposition.quarantined,
    duplicates: 0,
    conflicts: 0,
    fault: error.replaceAll("\0", "\ufffd"),
    headers: packHeaders(headers),
    body,
  };
}

/** The last body that a walk passed. It began at `since` (unix ms). */
export interface QuarantinePlace {
  readonly since: number;
  readonly receivedAt: number;
  readonly seq: number;
}

export interface QuarantineStep {
  readonly found: readonly QuarantinedEvent[];
  /** Null when the walk is over. */
  readonly place: QuarantinePlace | null;
}

export const startOfQuarantine = (since: number): QuarantinePlace => ({ since, receivedAt: 0, seq: 0 });

const e = as(events, "e");
const body = select({
  seq: e.seq,
  account: e.account,
  source: e.source,
  origin: e.origin,
  receivedAt: e.received_at,
  headers: e.headers,
  body: e.body,
});
// In the text, because the index has only these.
const inQuarantine = sql`e.disposition = ${raw(String(codeOf.disposition.quarantined))}`;

/** The next bodies that match, out of `limit` that it reads, in the order received. */
export function* findQuarantined(
  { accounts, source, from = 0, to = Number.MAX_SAFE_INTEGER }: QuarantineFilter,
  { since, ...last }: QuarantinePlace,
  limit: number,
): Work<QuarantineStep> {
  const { receivedAt, seq } = last.receivedAt < from ? { receivedAt: from, seq: 0 } : last;
  const found = yield* rows(
    body`FROM events e ${raw("INDEXED BY events_quarantined", "")}
      WHERE ${inQuarantine} AND (e.received_at, e.seq) > (${receivedAt}, ${seq}) AND e.received_at <= ${Math.min(since, to - 1)}
      ORDER BY e.received_at, e.seq LIMIT ${limit}`,
  );
  const end = found.at(-1);
  return {
    found: found
      .filter((row) => (source === undefined || row.source === source) && (accounts === undefined || accounts.includes(row.account)))
      .map(bodyOf),
    place: end === undefined || found.length < limit ? null : { since, receivedAt: end.receivedAt, seq: end.seq },
  };
}

/** Null: no body with this seq is in quarantine. */
export function* quarantined(seq: number): Work<QuarantinedEvent | null> {
  const row = yield* first(body`FROM events e WHERE e.seq = ${seq} AND ${inQuarantine}`);
  return row === null ? null : bodyOf(row);
}

function bodyOf({ origin, headers, ...row }: NonNullable<ReturnType<typeof body>["row"]>): QuarantinedEvent {
  return { ...row, origin: origins[origin] ?? "webhook", headers: unpackHeaders(headers) };
}
