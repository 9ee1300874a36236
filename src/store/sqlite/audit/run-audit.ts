import type { AuditReport } from "../../../event/audit-report.ts";
import { createGaps } from "../../audit/gaps.ts";
import { createTally } from "../../audit/tally.ts";
import type { AuditOrder, AuditProgress } from "../../inspecting.ts";
import { unpackEventId } from "../codes.ts";
import { createNames } from "../names.ts";
import type { Db } from "../open.ts";
import { createSwept } from "../swept.ts";
import { createJudge } from "./judge.ts";
import { nameIn } from "./name-in.ts";
import { createProofsCheck } from "./proofs-check.ts";
import { seqRange } from "./seq-range.ts";
import { createSlices, deliveryColumn, eventColumn } from "./slice.ts";
import { createStrays } from "./strays.ts";
import { createWholeChecks } from "./whole-checks.ts";

/** Parked events may end this much late: a flood's are ended a few at a time. */
const lateMs = 5 * 60_000;

/**
 * Holds every row to the rules of `auditRules`, in slices with a short transaction each, so that a relay that writes
 * meanwhile is not held up and its write-ahead log can be emptied. A slice has whole events with all that hangs on
 * them, and each is consistent in itself; what comes in after the start is not looked at. Gives its progress after each slice.
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
  const swept = createSwept(db);
  const source = order.source === undefined ? null : (names.find("source", order.source) ?? -1);
  const { from: start = Number.NEGATIVE_INFINITY, to: stop = Number.POSITIVE_INFINITY } = order;
  const isWhole = order.from === undefined && order.to === undefined && source === null;

  const begun = db.transaction(() => {
    const range = seqRange(db, order);
    const lastAt = db.prepare<[], number | null>("SELECT received_at FROM events ORDER BY seq DESC LIMIT 1").pluck().get() ?? 0;
    const strays = createStrays(db, tally);
    if (isWhole) strays.beyond(range.newest);
    return { range, lastAt, strays, proofs: createProofsCheck(db, names) };
  })();
  const { range, strays, proofs } = begun;
  const judge = createJudge(db, {
    names,
    tally,
    sweptBefore: () => swept.before("deliveries"),
    parkedSince: (order.isRunning ? order.now : begun.lastAt) - lateMs,
  });
  const gaps = createGaps(tally, range.after === 0, () => swept.before("events"));
  const read = createSlices(db);
  const rows = { events: 0, deliveries: 0, attempts: 0 };
  const of = range.last - range.after;

  for (let at = range.after; at < range.last; ) {
    at = read(at, range.last, (slice) => {
      let place = 0;
      let tries = 0;
      for (const row of slice.events) {
        place = strays.skip(slice.deliveries, place, row[eventColumn.seq] as number);
        const receivedAt = row[eventColumn.receivedAt] as number;
        const isCounted = receivedAt >= start && receivedAt < stop && (source === null || row[eventColumn.source] === source);
        if (source === null) gaps.next(row[eventColumn.seq] as number, receivedAt, isCounted);
        if (isCounted) proofs.stored(row[eventColumn.source] as number, row[eventColumn.secret] as number | null);
        place = judge(row, slice.deliveries, place, isCounted);
      }
      strays.skip(slice.deliveries, place, Number.POSITIVE_INFINITY);
      for (const row of slice.deliveries) tries += row[deliveryColumn.tries] as number;
      if (tries !== slice.attempts) strays.attempts(slice.from, slice.to);
      rows.events += slice.events.length;
      rows.deliveries += slice.deliveries.length;
      rows.attempts += slice.attempts;
      return slice.to;
    });
    yield { checked: at - range.after, of };
  }
  const whole = createWholeChecks(db, tally);
  if (isWhole) {
    proofs.check(range.newest, tally);
    for (const check of [whole.order(), whole.ids()]) for (const _ of check) yield { checked: of, of };
  }
  return { ...tally.result(), at: order.now, tookMs: Math.round(performance.now() - startedAt), rows, gone: gaps.result() };
}
