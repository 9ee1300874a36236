import type { AuditFilter, AuditProgress, AuditReport, Offender } from "../../model/audit.ts";
import { hydrationStates } from "../../model/hydration.ts";
import { countIn } from "../../model/maps.ts";
import type { AuditOrder } from "../port.ts";
import { seqRange } from "../read/pages.ts";
import { unpackEventId } from "../schema/codes.ts";
import { counters, deliveries, events, never, queue, queueState } from "../schema/tables.ts";
import { ask, find, first, look, rows, together, type Work } from "../sql/ops.ts";
import { as, type RowFrom, raw, select, sql, typed } from "../sql/sql.ts";
import { lastCopied, purgedBefore } from "../work/state-rows.ts";
import {
  type Audited,
  alsoSettled,
  createEventAudit,
  isInLane,
  notPlanned,
  otherLane,
  strayAttempts,
} from "./event.ts";
import {
  createPlans,
  type EventRow,
  findHydrating,
  findOpen,
  isParkedRow,
  type MaybeOpen,
  readSlice,
  type Slice,
} from "./slices.ts";
import { createGaps, createHistoryAudit, createTally, type Tally } from "./tally.ts";

/**
 * Checks every row against `auditRules`, a slice of events at a time. Run it in one transaction
 * that reads one snapshot; until it ends, that keeps deleted rows and pages of the write-ahead log.
 */
export function* audit(
  order: AuditOrder,
  progress: (at: AuditProgress) => void,
): Work<AuditReport> {
  const startedAt = performance.now();
  const {
    from: start = Number.NEGATIVE_INFINITY,
    to: stop = Number.POSITIVE_INFINITY,
    source,
  } = order;
  const isWhole = order.from === undefined && order.to === undefined && source === undefined;
  const isCounted = (row: EventRow): boolean =>
    row.receivedAt >= start &&
    row.receivedAt < stop &&
    (source === undefined || row.source === source);

  const tally = createTally(order.mostOffenders);
  const range = yield* rangeOf(order);
  const purged = {
    events: yield* purgedBefore("events"),
    deliveries: yield* purgedBefore("deliveries"),
    history: yield* purgedBefore("history"),
  };
  const parkedSince = (order.isRunning ? order.now : range.newestAt) - lateMs;
  const auditEvent = createEventAudit(tally, purged.deliveries, parkedSince);
  const gaps = createGaps(tally, range.after === 0, purged.events, yield* gaplessAfter());
  const factsOf = createPlans();
  const history = createHistoryAudit(tally);
  const usage = createUsageAudit(tally);
  const checked = { events: 0, deliveries: 0, attempts: 0 };
  const of = Math.min(range.last, range.newest) - range.after;

  for (let after = range.after; after < range.last; ) {
    const slice = yield* readSlice(after, range.last);
    for (const row of slice.events)
      if (source === undefined) gaps.next(row.seq, row.receivedAt, isCounted(row));
    const counted = slice.events.filter(isCounted);
    for (const one of yield* withRows(counted, slice, factsOf)) {
      auditEvent(one);
      usage.stored(one.row);
      const tried = one.settled.filter(({ at }) => at !== null).length;
      checked.events += 1;
      checked.deliveries += one.settled.length + one.open.filter((row) => !isParkedRow(row)).length;
      checked.attempts += one.attempts.length + tried;
    }
    findStrays(tally, slice);
    if (isWhole) history.count(slice);
    after = slice.to;
    progress({ checked: Math.min(after, range.newest) - range.after, of });
  }
  if (isWhole) {
    yield* usage.check(range.newest);
    yield* history.check(purged);
    yield* auditQueue(tally, factsOf);
    yield* auditIds(tally);
  }
  const { offenders, ...sums } = tally.result();
  return {
    ...sums,
    offenders: yield* withIds(offenders),
    at: order.now,
    tookMs: Math.round(performance.now() - startedAt),
    rows: checked,
    gone: gaps.gone,
  };
}

/** Parked events may end this much late: they are ended a few at a time. */
const lateMs = 5 * 60_000;

const e = as(events, "e");
const received = select({ seq: e.seq, at: e.received_at });

function* rangeOf({ from, to }: AuditFilter) {
  const last = yield* first(received`FROM events e ORDER BY e.seq DESC LIMIT 1`);
  const within = yield* seqRange(from ?? Number.NEGATIVE_INFINITY, to ?? Number.POSITIVE_INFINITY);
  return {
    after: from === undefined ? 0 : within.after,
    last: to === undefined ? never : within.last,
    newest: last?.seq ?? 0,
    newestAt: last?.at ?? 0,
  };
}

/**
 * The seq after which none is missing. A transaction of PostgreSQL that is rolled back leaves gaps,
 * also in a copy: there the history counts missing events.
 */
function* gaplessAfter(): Work<number> {
  const row = yield* first(select({ isSqlite: typed<number>(raw("1", "0")) })``);
  return row?.isSqlite === 1 ? yield* lastCopied() : never;
}

function* withRows(
  counted: readonly EventRow[],
  slice: Slice,
  factsOf: ReturnType<typeof createPlans>,
): Work<Audited[]> {
  const facts = yield* factsOf(counted);
  const audited = counted.map((row) => ({
    row,
    facts: facts(row.plan),
    settled: slice.settled.get(row.seq) ?? [],
    attempts: slice.attempts.get(row.seq) ?? [],
  }));
  const open = yield* findOpen(
    audited.flatMap(({ row: { seq, subject }, facts, settled, attempts }): MaybeOpen[] => {
      const routes = new Set([...(facts?.deliver ?? []), ...attempts.map(({ route }) => route)]);
      for (const { route } of settled) routes.delete(route);
      for (const route of facts?.park ?? []) routes.add(route);
      return [...routes].map((route) => ({ event: seq, subject, route }));
    }),
  );
  // No clock ends what waits for a hydration.
  const unending = [...open].flatMap(([seq, list]) =>
    list.some((row) => isParkedRow(row) && row.next_at === never) ? [seq] : [],
  );
  const hydrating = yield* findHydrating(unending, hydrationStates.indexOf("waiting"));
  return audited.map((one) => ({
    ...one,
    open: open.get(one.row.seq) ?? [],
    isHydrating: hydrating.has(one.row.seq),
  }));
}

function findStrays(tally: Tally, { events, settled, attempts }: Slice): void {
  const seqs = new Set(events.map(({ seq }) => seq));
  for (const [event, list] of settled)
    if (!seqs.has(event))
      for (const { route } of list)
        tally.offence("delivery without event", event, route, "there is no such event");
  for (const [event, list] of attempts) {
    if (seqs.has(event)) continue;
    const routes = new Set(settled.get(event)?.map(({ route }) => route));
    for (const [route, { length }] of Map.groupBy(list, (one) => one.route))
      if (!routes.has(route)) strayAttempts(tally, event, route, length);
  }
}

const c = as(counters, "c");
const verified = select({
  of: c.of,
  label: c.label,
  n: typed<number>(raw("sum(c.n)", "sum(c.n)::bigint")),
});

/**
 * Compares the usage counts of secrets with the events. Retention lowers only the events. A
 * duplicate may have come with another secret.
 */
function createUsageAudit(tally: Tally) {
  const stored = new Map<string, number>();
  return {
    stored({ source, secret }: EventRow): void {
      if (secret !== null) countIn(stored, `${source}:${secret}`);
    },
    *check(accepted: number): Work<void> {
      const found = yield* rows(
        verified`FROM counters c WHERE c.at = 0 AND c.series = 'secret' GROUP BY c.of, c.label`,
      );
      const counted = new Map(found.map(({ of, label, n }) => [`${of}:${label}`, n]));
      const differs = (what: string) => tally.offence("secret usage differs", null, null, what);
      const all = found.reduce((sum, { n }) => sum + n, 0);
      if (all > accepted)
        differs(`secrets verified ${all} events, but only ${accepted} were accepted`);
      for (const [name, events] of stored) {
        const known = counted.get(name) ?? 0;
        if (known < events)
          differs(
            `${events} events by source and secret ${name} are stored, and ${known} are counted`,
          );
      }
    },
  };
}

const ofSeq = look(events, ["seq"], ["id"]);

function* withIds(offenders: readonly Omit<Offender, "eventId">[]): Work<Offender[]> {
  const found = yield* ask(find(ofSeq, offenders, ({ event }) => [event ?? 0]));
  return offenders.map((offender, place) => {
    const id = found[place]?.id ?? null;
    return { ...offender, eventId: id === null ? null : unpackEventId(id.toString("hex")) };
  });
}

const sliceRows = 1_000;

const q = as(queue, "q");
const open = select({ lane: q.lane, route: q.route, event: q.event, state: q.state });
type Open = RowFrom<typeof open>;
const ofEvent = look(events, ["seq"], ["seq", "subject", "plan"]);
const settled = look(deliveries, ["event", "route"], ["event"]);

function* auditQueue(tally: Tally, factsOf: ReturnType<typeof createPlans>): Work<void> {
  const order = createOrderAudit(tally);
  let place: Pick<Open, "lane" | "route" | "event"> = {
    lane: Number.MIN_SAFE_INTEGER,
    route: "",
    event: 0,
  };
  for (;;) {
    const found = yield* rows(
      open`FROM queue q WHERE (q.lane, q.route, q.event) > (${place.lane}, ${place.route}, ${place.event})
        ORDER BY q.lane, q.route, q.event LIMIT ${sliceRows}`,
    );
    const [stored, twins] = yield* together([
      find(ofEvent, found, ({ event }) => [event]),
      find(settled, found, ({ event, route }) => [event, route]),
    ]);
    const facts = yield* factsOf(stored.filter((row) => row !== undefined));
    for (const [index, row] of found.entries()) {
      const { event, route, lane } = row;
      const of = stored[index];
      if (of === undefined)
        tally.offence("delivery without event", event, route, "there is no such event");
      else {
        const { deliver = [], park = [] } = facts(of.plan) ?? {};
        if (!deliver.includes(route) && !park.includes(route)) unplanned(tally, row);
        if (!isInLane(lane, of))
          tally.offence("delivery contradicts itself", event, route, otherLane);
      }
      if (twins[index] !== undefined)
        tally.offence("delivery contradicts itself", event, route, alsoSettled);
      if (lane > 0) order.next(row);
    }
    const last = found.at(-1);
    if (last === undefined || found.length < sliceRows) break;
    place = last;
  }
  order.end();
}

function unplanned(tally: Tally, row: Open): void {
  const { event, route } = row;
  if (isParkedRow(row))
    tally.offence(
      "parking broken",
      event,
      null,
      "is parked until a time, and no route waits for it",
    );
  else tally.offence("delivery not planned", event, route, notPlanned);
}

/** Promise 3: at most one delivery of a lane is waiting. If none is, the first is parked. */
function createOrderAudit(tally: Tally) {
  let lane: (Open & { waiting: number; open: number; isFirstParked: boolean }) | null = null;

  function end(): void {
    if (
      lane === null ||
      lane.open === 0 ||
      lane.waiting === 1 ||
      (lane.waiting === 0 && lane.isFirstParked)
    )
      return;
    const what =
      lane.waiting === 0
        ? `is held with ${lane.open - 1} more of its message, behind none that goes out`
        : `goes out with ${lane.waiting - 1} more of its message`;
    tally.offence("order broken", lane.event, lane.route, what);
  }

  return {
    next(row: Open): void {
      if (lane?.lane !== row.lane || lane.route !== row.route) {
        end();
        lane = { ...row, waiting: 0, open: 0, isFirstParked: isParkedRow(row) };
      }
      if (row.state === queueState.waiting) lane.waiting += 1;
      if (!isParkedRow(row)) lane.open += 1;
    },
    end,
  };
}

const indexes = sql<{ readonly name: string; readonly text: string }>`${raw(
  "SELECT name, sql AS text FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'events'",
  "SELECT indexname AS name, indexdef AS text FROM pg_indexes WHERE schemaname = current_schema() AND tablename = 'events'",
)}`;
const twice = select({
  event: typed<number>(sql`max(e.seq)`),
  times: typed<number>(sql`count(*)`),
});

function* auditIds(tally: Tally): Work<void> {
  const found = (yield* rows(indexes)).filter(({ text }) =>
    /^CREATE UNIQUE INDEX/i.test(text ?? ""),
  );
  const gone = ["events_id", "events_derived"].filter(
    (name) => !found.some((index) => index.name === name),
  );
  if (gone.length === 0) return;
  tally.offence(
    "id repeated",
    null,
    null,
    `the unique index ${gone.join(" and ")} is gone: nothing keeps ids apart`,
  );
  const repeated = yield* rows(
    twice`FROM events e WHERE e.id IS NOT NULL GROUP BY e.account, e.id HAVING count(*) > 1 LIMIT 1000`,
  );
  for (const { event, times } of repeated)
    tally.offence("id repeated", event, null, `its id stands ${times} times`, times - 1);
}
