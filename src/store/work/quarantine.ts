import { origins, type QuarantinedBody } from "../../model/event.ts";
import { minuteMs } from "../../model/history.ts";
import type { ReplayQuery } from "../../model/queries.ts";
import type { QuarantinedEvent, ReplayCursor } from "../port.ts";
import { codeOf, packEventId, packHeaders, unpackHeaders } from "../schema/codes.ts";
import { blankRow, events, ids, type RowOf, whereQuarantined } from "../schema/tables.ts";
import {
  ask,
  change,
  find,
  first,
  insert,
  look,
  numbers,
  rows,
  together,
  update,
  type Work,
} from "../sql/ops.ts";
import { as, indexedBy, pick, type RowFrom, raw, select, sql } from "../sql/sql.ts";
import { type Counts, countSecret } from "./counts.ts";

export interface QuarantineFilter extends Pick<ReplayQuery, "accounts" | "from" | "to" | "source"> {
  readonly disposition?: "quarantined" | "unassigned" | undefined;
}

export interface QuarantinedFound {
  readonly found: readonly QuarantinedEvent[];
  readonly cursor: ReplayCursor | null;
}

type EventRow = RowOf<typeof events>;

/** Meta repeats a request for seven days. Events themselves may be deleted earlier. */
export const keptMs = 8 * 86_400_000;

export const knownId = look(ids, ["id"], ["seq"]);
export const idRow = (id: Buffer, seq: number, receivedAt: number): RowOf<typeof ids> => ({
  id,
  seq,
  until: receivedAt + keptMs,
});

const repeated = change(events, [], { add: ["duplicates"] });

export interface Quarantined {
  readonly result: "quarantined" | "duplicate";
  readonly seq: number;
}

/** Those with an id once. The caller writes the counts. */
export function* storeQuarantined(
  bodies: readonly QuarantinedBody[],
  counts: Counts,
): Work<readonly Quarantined[]> {
  const named = bodies.map(({ id }) => (id === undefined ? null : packEventId(id)));
  const keys = named.filter((id) => id !== null);
  const found = yield* ask(find(knownId, keys, (id) => [id]));
  const known = new Map(
    found.flatMap((row, place) =>
      row === undefined ? [] : [[(keys[place] as Buffer).toString("hex"), row.seq]],
    ),
  );
  const repeats = new Map<number, { readonly seq: number; duplicates: number }>();
  // Repeats take no number: seqs have no gaps on SQLite.
  const fresh = new Set(
    named
      .map((id, place) => id?.toString("hex") ?? place)
      .filter((id) => typeof id === "number" || !known.has(id)),
  );
  const seqs = (yield* ask(numbers(events, fresh.size))).values();
  const rows: EventRow[] = [];
  const added: ReturnType<typeof idRow>[] = [];
  const outcomes = bodies.map((body, place): Quarantined => {
    const id = named[place] ?? null;
    const earlier = id === null ? undefined : known.get(id.toString("hex"));
    if (earlier !== undefined) {
      countSecret(counts, body, "secretRepeats");
      const repeat = repeats.get(earlier) ?? { seq: earlier, duplicates: 0 };
      repeat.duplicates += 1;
      repeats.set(earlier, repeat);
      return { result: "duplicate", seq: earlier };
    }
    const seq = seqs.next().value as number;
    const { account, source, receivedAt, disposition = "quarantined" } = body;
    countSecret(counts, body, "secret");
    counts.add(
      {
        at: Math.floor(receivedAt / minuteMs),
        account,
        series: "events",
        of: source,
        label: disposition,
      },
      1,
    );
    rows.push(rowOf(seq, body));
    if (id !== null) {
      known.set(id.toString("hex"), seq);
      added.push(idRow(id, seq, receivedAt));
    }
    return { result: "quarantined", seq };
  });
  yield* together([
    insert(events, rows),
    insert(ids, added),
    update(
      repeated,
      [...repeats.values()].sort((a, b) => a.seq - b.seq),
    ),
  ]);
  return outcomes;
}

const blank = blankRow(events);

function rowOf(seq: number, one: QuarantinedBody): EventRow {
  const {
    account,
    format,
    request,
    place,
    source,
    origin,
    receivedAt,
    secret,
    disposition = "quarantined",
    error,
    headers,
    body,
  } = one;
  return {
    ...blank,
    seq,
    account,
    format: format ?? null,
    request: place === undefined ? null : (request ?? null),
    place: place ?? null,
    source,
    origin: codeOf.origin[origin],
    received_at: receivedAt,
    secret,
    moved: 0,
    disposition: codeOf.disposition[disposition],
    duplicates: 0,
    conflicts: 0,
    fault: error.replaceAll("\0", "\ufffd"),
    headers: packHeaders(headers),
    body,
  };
}

type Word = NonNullable<QuarantinedEvent["disposition"]>;

const e = as(events, "e");
const columns = {
  ...pick(e, "seq", "account", "format", "request", "place", "source", "origin", "headers", "body"),
  receivedAt: e.received_at,
};
const body = select(columns);
const one = select({ ...columns, disposition: e.disposition });
const ofDisposition = (word: Word) =>
  sql`e.${raw(whereQuarantined)} AND e.disposition = ${raw(String(codeOf.disposition[word]))}`;

/** The `lane` of the cursor is the time of receipt. */
export function* findQuarantined(
  {
    disposition = "quarantined",
    accounts,
    source,
    from = 0,
    to = Number.MAX_SAFE_INTEGER,
  }: QuarantineFilter,
  { since, lane, event }: ReplayCursor,
  limit: number,
): Work<QuarantinedFound> {
  const [receivedAt, seq] = lane < from ? [from, 0] : [lane, event];
  const found = yield* rows(
    body`FROM events e ${indexedBy("events_quarantined")}
      WHERE ${ofDisposition(disposition)} AND (e.received_at, e.seq) > (${receivedAt}, ${seq}) AND e.received_at <= ${Math.min(since, to - 1)}
      ORDER BY e.received_at, e.seq LIMIT ${limit}`,
  );
  const end = found.at(-1);
  return {
    found: found
      .filter(
        (row) =>
          (source === undefined || row.source === source) &&
          (accounts === undefined || accounts.includes(row.account)),
      )
      .map((row) => bodyOf(row, disposition)),
    cursor:
      end === undefined || found.length < limit
        ? null
        : { since, event: end.seq, lane: end.receivedAt, route: "" },
  };
}

/** Null: no body with this seq can be released. */
export function* quarantined(seq: number): Work<QuarantinedEvent | null> {
  const row = yield* first(one`FROM events e WHERE e.seq = ${seq} AND e.${raw(whereQuarantined)}`);
  return row === null
    ? null
    : bodyOf(row, row.disposition === codeOf.disposition.unassigned ? "unassigned" : "quarantined");
}

type BodyRow = RowFrom<typeof body>;

function bodyOf(
  { origin, headers, format, request, place, ...row }: BodyRow,
  disposition: Word,
): QuarantinedEvent {
  return {
    ...row,
    disposition,
    ...(format === null ? {} : { format }),
    ...(request === null || place === null ? {} : { request, place }),
    origin: origins[origin] ?? "webhook",
    headers: unpackHeaders(headers),
  };
}
