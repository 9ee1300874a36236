import type { AuditFilter, AuditReport } from "../../model/audit.ts";
import { createGaps, createTally, type Tally } from "../audit.ts";
import { checkUsage, clockSlackMs, lateMs } from "../audit-rules.ts";
import type { AuditOrder, AuditProgress } from "../reading.ts";
import { createAuditEvent, createSlices, type DeliveryRow, deliveryColumn, eventColumn, nameIn } from "./audit-events.ts";
import { createHistoryAudit } from "./audit-history.ts";
import type { Db } from "./file.ts";
import { createNames, type Names, unpackEventId } from "./names.ts";
import { createPurged } from "./purge.ts";

/**
 * Checks every row against `auditRules`, in slices of one short transaction each, so that a running relay is not delayed
 * and can empty its write-ahead log. A slice has complete events with their deliveries and attempts. Events that arrive
 * after the start are not checked. Yields its progress after each slice.
 */
export function* runAudit(db: Db, order: AuditOrder): Generator<AuditProgress, AuditReport> {
  const startedAt = performance.now();
  const names = createNames(db);
  const idOf = db.prepare<[number], Buffer | string | null>("SELECT id FROM events WHERE seq = ?").pluck();
  const tally = createTally<number>({
    nameOf: (id) => nameIn(names, id),
    eventIdOf: (seq) => unpackEventId(idOf.get(seq) ?? null),
    mostOffenders: order.mostOffenders,
  });
  const purged = createPurged(db);
  const source = order.source === undefined ? null : (names.find("source", order.source) ?? -1);
  const { from: start = Number.NEGATIVE_INFINITY, to: stop = Number.POSITIVE_INFINITY } = order;
  const isWhole = order.from === undefined && order.to === undefined && source === null;

  const begun = db.transaction(() => {
    const range = seqRange(db, order);
    const lastAt = db.prepare<[], number | null>("SELECT received_at FROM events ORDER BY seq DESC LIMIT 1").pluck().get() ?? 0;
    const strays = createStrays(db, tally);
    if (isWhole) strays.beyond(range.newest);
    return { range, lastAt, strays, usage: createUsageCheck(db, names), history: isWhole ? createHistoryAudit(db, names) : null };
  })();
  const { range, strays, usage, history } = begun;
  const auditEvent = createAuditEvent(db, {
    names,
    tally,
    deletedBefore: () => purged.before("deliveries"),
    parkedSince: (order.isRunning ? order.now : begun.lastAt) - lateMs,
  });
  const gaps = createGaps(tally, range.after === 0, () => purged.before("events"));
  const read = createSlices(db);
  const rows = { events: 0, deliveries: 0, attempts: 0 };
  const of = range.last - range.after;

  for (let at = range.after; at < range.last; ) {
    at = read(at, range.last, (slice) => {
      let place = 0;
      let storedAttempts = 0;
      for (const row of slice.events) {
        place = strays.skip(slice.deliveries, place, row[eventColumn.seq] as number);
        const receivedAt = row[eventColumn.receivedAt] as number;
        const isCounted = receivedAt >= start && receivedAt < stop && (source === null || row[eventColumn.source] === source);
        if (source === null) gaps.next(row[eventColumn.seq] as number, receivedAt, isCounted);
        if (isCounted) usage.stored(row[eventColumn.source] as number, row[eventColumn.secret] as number | null);
        place = auditEvent(row, slice.deliveries, place, isCounted);
      }
      strays.skip(slice.deliveries, place, Number.POSITIVE_INFINITY);
      history?.count(slice.from, slice.to);
      for (const row of slice.deliveries) storedAttempts += row[deliveryColumn.storedAttempts] as number;
      if (storedAttempts !== slice.attempts) strays.attempts(slice.from, slice.to);
      rows.events += slice.events.length;
      rows.deliveries += slice.deliveries.length;
      rows.attempts += slice.attempts;
      return slice.to;
    });
    yield { checked: at - range.after, of };
  }
  const whole = createWholeChecks(db, tally);
  if (isWhole) {
    usage.check(range.newest, tally);
    db.transaction(() => history?.check(tally))();
    for (const check of [whole.order(), whole.ids()]) for (const _ of check) yield { checked: of, of };
  }
  return { ...tally.result(), at: order.now, tookMs: Math.round(performance.now() - startedAt), rows, gone: gaps.result() };
}

interface SeqRange {
  /** Exclusive and inclusive: no matching event is outside. */
  readonly after: number;
  readonly last: number;
  /** The greatest number of all, 0 when there are no events. */
  readonly newest: number;
}

/** The events that a filter's times can match, by binary search. Call it inside a transaction. */
export function seqRange(db: Db, { from, to }: Pick<AuditFilter, "from" | "to">): SeqRange {
  const newest = db.prepare<[], number | null>("SELECT max(seq) FROM events").pluck().get() ?? 0;
  const receivedUpTo = db.prepare<[number], number>("SELECT received_at FROM events WHERE seq <= ? ORDER BY seq DESC LIMIT 1").pluck();

  /** The greatest number up to which everything was received before `at`. */
  function before(at: number): number {
    let [low, high] = [0, newest];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if ((receivedUpTo.get(middle) ?? Number.NEGATIVE_INFINITY) < at) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  return {
    after: from === undefined ? 0 : before(from - clockSlackMs),
    last: to === undefined ? newest : before(to + clockSlackMs),
    newest,
  };
}

/** Counts the stored events by source and secret. */
function createUsageCheck(db: Db, names: Names) {
  const nameOf = (source: number, secret: number): string => `${nameIn(names, source)}:${nameIn(names, secret)}`;
  const rows = db.prepare<[], { source: number; secret: number; events: number }>("SELECT source, secret, events FROM secret_uses").all();
  const counted = new Map(rows.map(({ source, secret, events }) => [nameOf(source, secret), events]));
  const stored = new Map<number, Map<number, number>>();

  return {
    stored(source: number, secret: number | null): void {
      if (secret === null) return;
      let sums = stored.get(source);
      if (sums === undefined) {
        sums = new Map();
        stored.set(source, sums);
      }
      sums.set(secret, (sums.get(secret) ?? 0) + 1);
    },
    check(accepted: number, tally: Tally<number>): void {
      const named = [...stored].flatMap(([source, sums]) => [...sums].map(([secret, events]) => [nameOf(source, secret), events] as const));
      checkUsage(tally, counted, new Map(named), accepted);
    },
  };
}

/** Index entries per slice: some tens of milliseconds. */
const sliceEntries = 50_000;

/** Rules about rows of several events, by index. Each `yield` ends a piece and its transaction. */
function createWholeChecks(db: Db, tally: Tally<number>) {
  /** Exactly one open delivery of a message on a route is `waiting`; all others are held (promise 3). */
  function* order(): Generator<void> {
    const end = db
      .prepare<[number], number>(
        `SELECT subject FROM deliveries INDEXED BY deliveries_open WHERE state <= 1 AND subject IS NOT NULL AND subject > ?
         ORDER BY subject LIMIT 1 OFFSET ${sliceEntries - 1}`,
      )
      .pluck();
    const broken = db.prepare<[number, number], { route: number; waiting: number; open: number; event: number }>(
      `SELECT route, sum(state = 0) AS waiting, count(*) AS open, min(event) AS event FROM deliveries INDEXED BY deliveries_open
       WHERE state <= 1 AND subject IS NOT NULL AND subject > ? AND subject <= ? GROUP BY subject, route HAVING sum(state = 0) <> 1`,
    );
    for (let from = -1, to: number; from < Number.MAX_SAFE_INTEGER; from = to) {
      to = end.get(from) ?? Number.MAX_SAFE_INTEGER;
      for (const { route, waiting, open, event } of broken.all(from, to)) {
        const what =
          waiting === 0
            ? `is held with ${open - 1} more of its message, behind none that goes out`
            : `goes out with ${waiting - 1} more of its message`;
        tally.offence("order broken", event, route, what);
      }
      yield;
    }
  }

  /** The unique index prevents repeated ids. Without it, the rows are checked. */
  function* ids(): Generator<void> {
    const index = db.prepare<[], string>("SELECT sql FROM sqlite_schema WHERE type = 'index' AND name = 'events_by_id'").pluck().get();
    if (index === undefined || !/^CREATE UNIQUE INDEX/i.test(index)) {
      tally.offence("id repeated", null, null, "the unique index events_by_id is gone: nothing keeps ids apart");
      const twice = db.prepare<[], { event: number; times: number }>(
        "SELECT max(seq) AS event, count(*) AS times FROM events WHERE id IS NOT NULL GROUP BY account, id HAVING count(*) > 1 LIMIT 1000",
      );
      for (const { event, times } of twice.all()) tally.offence("id repeated", event, null, `its id stands ${times} times`, times - 1);
    }
    yield;
  }

  return { order, ids };
}

/** Finds deliveries without their event, and attempts without their delivery. */
function createStrays(db: Db, tally: Tally<number>) {
  const attempts = db.prepare<[number, number], { event: number; route: number; count: number }>(
    `SELECT event, route, count(*) AS count FROM attempts a WHERE event > ? AND event <= ?
       AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.event = a.event AND d.route = a.route) GROUP BY event, route`,
  );
  const deliveriesAfter = db.prepare<[number], { event: number; route: number }>(
    "SELECT event, route FROM deliveries WHERE event > ? LIMIT 1000",
  );

  function findAttempts(after: number, to: number): void {
    for (const { event, route, count } of attempts.all(after, to)) {
      tally.offence("attempt without delivery", event, route, `${count} written down for no delivery`, count);
    }
  }

  function delivery(event: number, route: number): void {
    tally.offence("delivery without event", event, route, "there is no such event");
  }

  return {
    /** The place of the first delivery of the event `seq` or a later one. Those that it skips have no event. */
    skip(deliveries: readonly DeliveryRow[], from: number, seq: number): number {
      let place = from;
      for (; place < deliveries.length; place += 1) {
        const row = deliveries[place] as DeliveryRow;
        const event = row[deliveryColumn.event] as number;
        if (event >= seq) break;
        delivery(event, row[deliveryColumn.route] as number);
      }
      return place;
    },
    attempts: findAttempts,
    /** Rows of events beyond the greatest seq. */
    beyond(newest: number): void {
      for (const { event, route } of deliveriesAfter.all(newest)) delivery(event, route);
      findAttempts(newest, Number.MAX_SAFE_INTEGER);
    },
  };
}
