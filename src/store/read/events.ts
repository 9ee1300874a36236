import type {
  EventDetail,
  EventRequest,
  EventView,
  HydrationView,
} from "../../model/answers/events.ts";
import { origins } from "../../model/event.ts";
import { readRequestText } from "../../model/formats/formats.ts";
import { hydrationStates } from "../../model/hydration.ts";
import { hasIdLength } from "../../model/ids.ts";
import { contactMatches, fewestPhoneDigits, parseMask } from "../../model/mask.ts";
import type { EventQuery } from "../../model/queries.ts";
import { dispositions, type KeptVerdict } from "../../model/states.ts";
import { codeOf, packEventId, unpackEventId, unpackHeaders } from "../schema/codes.ts";
import {
  events,
  hydrations,
  never,
  plans,
  queue,
  queueState,
  subjects,
  whereDerived,
  whereGiven,
  whereParked,
} from "../schema/tables.ts";
import { ask, find, first, look, rows, type Work } from "../sql/ops.ts";
import {
  allOf,
  as,
  hexOf,
  indexedBy,
  pick,
  type RowFrom,
  raw,
  type Sql,
  select,
  sql,
  typed,
} from "../sql/sql.ts";
import { callsFor } from "../work/hydration-passes.ts";
import { briefOf, outcomeOf, polledCount, polledEvents } from "../work/hydrations.ts";
import { keyOf, keyOfRun } from "../work/subject-rows.ts";
import { type Conditions, conditionsOf, isBetween, readMatching, seqsFrom } from "./pages.ts";

interface EventsAbout {
  readonly seqs: readonly number[];
  readonly subjects: readonly {
    readonly type: "message" | "run";
    readonly account: string;
    readonly key: string;
  }[];
  readonly phone?: string | undefined;
  readonly reference?: string | undefined;
}

type EventFields = Omit<EventQuery, "wamid" | "subject" | "q" | "before" | "limit">;

export interface EventFilter extends EventFields {
  /** With a phone or reference, all events of the range are read. */
  readonly about?: EventsAbout | undefined;
  readonly wamid?: string | undefined;
  readonly before?: number | undefined;
  readonly after?: number | undefined;
  readonly limit: number;
}

interface Held {
  /** Seq of the event of the same message that goes out first. */
  readonly behind: number;
  readonly ahead: number;
}

const e = as(events, "e");
const s = as(subjects, "s");
const p = as(plans, "p");

/** PostgreSQL would read all parked rows in the index of due ones. */
const isParked = raw(`q.${whereParked}`, `q.state + 0 = ${queueState.parked}`);
const parkedUntil = sql`(SELECT min(q.next_at) FROM queue q ${indexedBy("queue_parked")}
  WHERE q.lane = coalesce(e.subject, -e.seq) AND q.event = e.seq AND ${isParked})`;
const shown = {
  ...pick(
    e,
    "seq",
    "account",
    "source",
    "origin",
    "secret",
    "subject",
    "status",
    "moved",
    "disposition",
    "duplicates",
    "conflicts",
    "fault",
    "release",
  ),
  reference: s.reference,
  event: e.kind,
  id: typed<string | null>(hexOf(e.id)),
  receivedAt: e.received_at,
  createdAt: e.created_at,
  type: typed<number | null>(s.type),
  name: typed<string | null>(s.name),
  previousStatus: e.previous_status,
  errorCode: e.error_code,
  parkedUntil: typed<number | null>(parkedUntil),
  size: typed<number>(sql`length(e.body)`),
} as const;
const listed = select(shown);
const detailed = select({
  ...shown,
  request: e.request,
  place: e.place,
  headers: e.headers,
  body: e.body,
  verdicts: typed<string | null>(p.verdicts),
});
type Row = RowFrom<typeof listed>;

const named = look(subjects, ["key", "account"], ["seq"]);
const isQuarantined = sql`e.disposition = ${raw(String(codeOf.disposition.quarantined))}`;
const conditions: Conditions<EventFields> = {
  event: (kind) => sql`e.kind = ${kind}`,
  source: (source) => sql`e.source = ${source}`,
  account: (account) => sql`e.account = ${account}`,
  accounts: (accounts) => sql`e.account IN ${accounts}`,
  status: (status) => sql`e.status = ${status}`,
  errorCode: (code) => sql`e.error_code = ${code}`,
  disposition: (disposition) => sql`e.disposition = ${codeOf.disposition[disposition]}`,
  // A point follows the digest, and a slash a point.
  request: (digest) => sql`e.request >= ${`${digest}.`} AND e.request < ${`${digest}/`}`,
  from: (time) => sql`e.received_at >= ${time}`,
  to: (time) => sql`e.received_at < ${time}`,
};
const mostMasked = 100;

export function* listEvents(filter: EventFilter): Work<EventView[]> {
  const { about, wamid, disposition, after = 0, before = Number.MAX_SAFE_INTEGER, limit } = filter;
  const lists: number[][] = [];
  if (wamid !== undefined)
    lists.push(
      yield* eventsOfSubjects(yield* seqsFrom(sql`subjects x WHERE x.key = ${keyOf(wamid)}`)),
    );
  const isIndexed =
    about !== undefined && about.phone === undefined && about.reference === undefined;
  const stored = yield* ask(find(named, about?.subjects ?? [], keyOfSubject));
  const subjects = stored.flatMap((row) => row?.seq ?? []);
  if (isIndexed) lists.push([...about.seqs, ...(yield* eventsOfSubjects(subjects))]);
  if (lists.some((seqs) => seqs.length === 0)) return [];

  const any = about === undefined || isIndexed ? null : anyOf(about, subjects);
  const isListed =
    disposition === "quarantined" && filter.request === undefined && lists.length === 0;
  const index = isListed
    ? indexedBy("events_quarantined_list")
    : filter.request !== undefined && lists.length === 0
      ? indexedBy("events_request")
      : undefined;
  const read = (end: number, most: number) =>
    rows(
      listed`FROM events e ${index} LEFT JOIN subjects s ON s.seq = e.subject WHERE ${allOf(
        isBetween(e.seq, after, end),
        ...lists.map((seqs) => sql`e.seq IN ${seqs}`),
        isListed ? isQuarantined : undefined,
        conditionsOf(conditions, isListed ? { ...filter, disposition: undefined } : filter),
        any?.where,
      )} ORDER BY e.seq DESC LIMIT ${most}`,
    );
  const found = yield* readMatching(before, limit, read, any?.fits);
  return found.map(viewOf);
}

const keyOfSubject = ({ type, account, key }: EventsAbout["subjects"][number]) => [
  type === "run" ? keyOfRun(key) : keyOf(key),
  account,
];

function* eventsOfSubjects(subjects: readonly number[]): Work<number[]> {
  return subjects.length === 0 ? [] : yield* seqsFrom(sql`events x WHERE x.subject IN ${subjects}`);
}

function anyOf(
  { seqs, phone, reference }: EventsAbout,
  subjects: readonly number[],
): { where: Sql; fits(row: Row): boolean } {
  const digits =
    phone === undefined || phone === "" ? undefined : Number(phone.slice(-fewestPhoneDigits));
  const where = sql`(e.seq IN ${seqs} OR e.subject IN ${subjects}
    ${reference === undefined ? undefined : sql`OR s.reference = ${reference}`}
    ${digits === undefined ? undefined : sql`OR s.phone = ${digits}`})`;
  const [events, about] = [new Set(seqs), new Set(subjects)];
  const fits = (row: Row): boolean =>
    events.has(row.seq) ||
    (row.subject !== null && about.has(row.subject)) ||
    (reference !== undefined && row.reference === reference) ||
    (phone !== undefined && row.type === 0 && row.name !== null && contactMatches(row.name, phone));
  return { where, fits };
}

function viewOf({
  id,
  type,
  name,
  moved,
  release,
  subject: _subject,
  reference: _reference,
  ...row
}: Row): EventView {
  const disposition = dispositions[row.disposition] ?? "filtered";
  return {
    ...row,
    // SQLite writes no id as an empty text.
    id: id === null || id === "" ? null : unpackEventId(id),
    origin: origins[row.origin] ?? "webhook",
    subject: name === null ? null : { type: type === 0 ? "message" : "run", key: name },
    transition: moved === 1,
    disposition,
    parkedUntil: row.parkedUntil === never ? null : row.parkedUntil,
    releasedAs: disposition === "released" ? release : null,
    releasedFrom: disposition === "released" ? null : release,
  };
}

function requestView(text: string, place: number): EventRequest {
  const { items, ...request } = readRequestText(text);
  return { ...request, events: items, place: place + 1 };
}

export function* getEvent(seq: number): Work<EventDetail | null> {
  const row = yield* first(
    detailed`FROM events e LEFT JOIN subjects s ON s.seq = e.subject LEFT JOIN plans p ON p.id = e.plan WHERE e.seq = ${seq}`,
  );
  if (row === null) return null;
  const { request, place, headers, body, verdicts, ...event } = row;
  return {
    ...viewOf(event),
    request: request === null || place === null ? null : requestView(request, place),
    headers: unpackHeaders(headers),
    body,
    routes: (JSON.parse(verdicts ?? "[]") as KeptVerdict[]).map(([route, verdict, reason]) => ({
      route,
      verdict,
      ...(reason === undefined ? {} : { reason }),
    })),
    hydration: yield* readHydration(seq),
  };
}

export function* latestReceived(after: number, before: number): Work<number | null> {
  const row = yield* first(
    select({
      at: typed<number | null>(sql`max(e.received_at)`),
    })`FROM events e WHERE ${isBetween(e.seq, after, before)}`,
  );
  return row?.at ?? null;
}

export function* seqsOf(id: string): Work<number[]> {
  const found = hasIdLength(id)
    ? yield* seqsFrom(sql`events x WHERE x.id = ${packEventId(id)} AND x.${raw(whereGiven)}
      UNION ALL SELECT x.seq FROM events x WHERE x.id = ${packEventId(id)} AND x.${raw(whereDerived)}`)
    : [];
  const mask = parseMask("event", id);
  const all =
    found.length > 0 || mask === null
      ? found
      : yield* seqsFrom(sql`events x WHERE x.mask = ${mask} LIMIT ${mostMasked}`);
  return all.sort((a, b) => a - b);
}

const own = look(hydrations, ["event"], ["account", "state", "more"]);
const found = select({
  id: hexOf(e.id),
  seq: e.seq,
  wamid: typed<string | null>(
    sql`(SELECT s.name FROM subjects s WHERE s.seq = e.subject AND s.type = 0)`,
  ),
  status: e.status,
});

const mostFoundShown = 100;

/** While it waits, with the statuses polled so far. */
function* readHydration(event: number): Work<HydrationView | null> {
  const [row] = yield* ask(find(own, [[event]]));
  if (row === undefined) return null;
  const outcome = outcomeOf(row);
  const { account } = row;
  const range = { account, after: event, last: outcome?.last ?? Number.MAX_SAFE_INTEGER };
  const list = yield* rows(found`${polledEvents(range)} ORDER BY e.seq LIMIT ${mostFoundShown}`);
  const { reason, polled, found: foundCount, unknown } = briefOf(row);
  return {
    state: hydrationStates[row.state] ?? "given-up",
    reason,
    polled: outcome === null ? yield* callsFor(event, account) : polled,
    found: list.map(({ id, ...rest }) => ({ id: unpackEventId(id), ...rest })),
    foundCount: outcome === null ? ((yield* first(polledCount(range)))?.n ?? 0) : foundCount,
    unknown,
    settledAt: outcome?.settledAt ?? null,
  };
}

const q = as(queue, "q");
const subjectOf = look(events, ["seq"], ["subject"]);

export function* eventsOf(
  type: "message" | "run",
  account: string,
  name: string,
  after: number,
  limit: number,
): Work<number[]> {
  const [subject] = yield* ask(find(named, [keyOfSubject({ type, account, key: name })]));
  if (subject === undefined) return [];
  // PostgreSQL might read all events in the order of their seqs.
  const order = raw("x.seq", "x.seq + 0");
  return yield* seqsFrom(
    sql`events x WHERE x.subject = ${subject.seq} AND x.seq > ${after} ORDER BY ${order} LIMIT ${limit}`,
  );
}

export function* heldBehind(event: number, route: string): Work<Held | null> {
  const [own] = yield* ask(find(subjectOf, [[event]]));
  const lane = own?.subject ?? null;
  if (lane === null) return null;
  const open = yield* rows(
    select({
      event: q.event,
      state: q.state,
    })`FROM queue q WHERE q.lane = ${lane} AND q.route = ${route} ORDER BY q.event`,
  );
  if (!open.some((one) => one.event === event && one.state === queueState.held)) return null;
  const first =
    open.find(({ state }) => state === queueState.waiting) ??
    open.find(({ state }) => state === queueState.parked);
  if (first === undefined) return null;
  return {
    behind: first.event,
    ahead: open.filter((one) => one.state === queueState.held && one.event < event).length,
  };
}
