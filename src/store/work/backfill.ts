import type { RouteVerdict } from "../../model/states.ts";
import { addVerdicts, nothingTracked, replan } from "../../track/planning.ts";
import type {
  BackfillFilter,
  DueDelivery,
  ReplayCursor,
  Replayed,
  ReplayFound,
  Rules,
} from "../port.ts";
import { codeOf } from "../schema/codes.ts";
import { events, plans, queue, type RowOf } from "../schema/tables.ts";
import {
  ask,
  change,
  find,
  insert,
  insertMissing,
  look,
  rows,
  together,
  update,
  type Work,
} from "../sql/ops.ts";
import { as, pick, select } from "../sql/sql.ts";
import type { AcceptParts } from "./accept.ts";
import { storedEvent } from "./conclude.ts";
import { type Counts, countMoved } from "./counts.ts";
import {
  lookAround,
  type NumberedPlan,
  type PlannedBatch,
  type Queued,
  queueRows,
  verdictsOf,
} from "./plans.ts";
import { factsOfRow, findSubjects, lockSubjects, type SubjectRow } from "./subject-rows.ts";

export interface Backfilling {
  readonly events: readonly number[];
  readonly filter: BackfillFilter;
  readonly at: number;
}

const bodiesAtOnce = 25;

const columns = [
  "seq",
  "account",
  "source",
  "format",
  "received_at",
  "body",
  "subject",
  "status",
  "previous_status",
  "moved",
  "error_code",
  "plan",
  "disposition",
] as const;
type EventRow = Pick<RowOf<typeof events>, (typeof columns)[number]>;
const subjectOf = look(events, ["seq"], ["subject"]);
const seen = look(events, ["seq"], columns);
const own = look(events, ["seq"], columns, { lock: "update" });
const routed = change(events, ["disposition", "plan", "fault"]);
const e = as(events, "e");
const walked = select({
  ...pick(e, "seq", "account", "subject", "disposition"),
  receivedAt: e.received_at,
  errorCode: e.error_code,
});

export function* findBackfill(
  filter: BackfillFilter,
  cursor: ReplayCursor,
  limit: number,
  rules: Rules,
): Work<ReplayFound> {
  const read = yield* rows(
    walked`FROM events e WHERE e.seq > ${cursor.event} ORDER BY e.seq LIMIT ${limit}`,
  );
  const { accounts, disposition, errorCode, from = 0, to = Number.MAX_SAFE_INTEGER } = filter;
  const matching = read.filter(
    (row) =>
      row.disposition === codeOf.disposition[disposition] &&
      (accounts === undefined || accounts.includes(row.account)) &&
      row.receivedAt <= cursor.since &&
      row.receivedAt >= from &&
      row.receivedAt < to &&
      (errorCode === undefined || row.errorCode === errorCode),
  );
  const subjects = yield* findSubjects(matching.flatMap(({ subject }) => subject ?? []));
  const replanned = yield* replanEvents(
    seen,
    matching.map(({ seq }) => seq),
    subjects,
    filter,
    rules,
  );
  const last = read.at(-1);
  return {
    found: replanned.flatMap(({ seq, added }) => added.map(({ route }) => ({ event: seq, route }))),
    cursor: last === undefined || read.length < limit ? null : { ...cursor, event: last.seq },
  };
}

/**
 * Planned deliveries stay, and only new verdicts are added (promise 2). The caller writes the
 * counts.
 */
export function* backfill(
  batch: readonly Backfilling[],
  parts: AcceptParts,
  counts: Counts,
): Work<PlannedBatch<Replayed>> {
  const outcomes: Replayed[] = [];
  const used: NumberedPlan[] = [];
  for (const one of batch) {
    const { plans, ...outcome } = yield* backfillOne(one, parts, counts);
    outcomes.push(outcome);
    used.push(...plans);
  }
  return { outcomes, plans: used };
}

function* backfillOne(
  { events: given, filter, at }: Backfilling,
  { rules, plans: numbersOf }: AcceptParts,
  counts: Counts,
): Work<Replayed & { readonly plans: readonly NumberedPlan[] }> {
  const seqs = [...new Set(given)].sort((a, b) => a - b);
  const about = yield* ask(find(subjectOf, seqs, (seq) => [seq]));
  const subjects = yield* lockSubjects(about.flatMap((row) => row?.subject ?? []));
  const replanned = (yield* replanEvents(own, seqs, subjects, filter, rules)).map((one) => ({
    ...one,
    plan: numbersOf.numberOf(one),
    own: { ...one, receivedAt: at, verdicts: one.added, isHydrating: false, proxyRoute: null },
  }));

  const { open, used, unstored } = yield* lookAround(
    rules,
    replanned.map(({ own }) => own),
    replanned.map(({ plan }) => plan),
  );
  const queued: Queued[] = [];
  const due: DueDelivery[] = [];
  for (const { own, account, source, received_at } of replanned) {
    const made = queueRows(rules, own, open);
    queued.push(...made.rows.map((row) => ({ ...row, replays: 1 })));
    due.push(...made.due);
    countMoved(counts, { account, source, received_at }, filter.disposition, "routed");
  }
  yield* together([
    insertMissing(plans, unstored),
    update(routed, replanned, ({ seq, plan }) => ({
      seq,
      disposition: codeOf.disposition.routed,
      plan: plan.id,
      fault: null,
    })),
    insert(queue, queued),
  ]);
  return { replayed: queued.length, due, plans: used };
}

interface Replanned extends Omit<EventRow, "body"> {
  readonly verdicts: readonly RouteVerdict[];
  readonly added: readonly RouteVerdict[];
}

function* replanEvents(
  rowOf: typeof seen,
  seqs: readonly number[],
  subjects: ReadonlyMap<number, SubjectRow>,
  { disposition, route }: BackfillFilter,
  rules: Rules,
): Work<Replanned[]> {
  const all: Replanned[] = [];
  for (let from = 0; from < seqs.length; from += bodiesAtOnce) {
    const keys = seqs.slice(from, from + bodiesAtOnce).map((seq) => [seq]);
    const read = (yield* ask(find(rowOf, keys))).filter(
      (row) => row?.disposition === codeOf.disposition[disposition],
    );
    const kept = yield* verdictsOf(read.map((row) => row?.plan ?? null));
    for (const row of read) {
      if (row === undefined) continue;
      const subject = row.subject === null ? undefined : subjects.get(row.subject);
      const now = replan(
        rules,
        storedEvent(row, row.body),
        subject === undefined ? nothingTracked : factsOfRow(subject),
      );
      const { verdicts, added } = addVerdicts(kept.get(row.plan ?? 0) ?? [], now ?? [], route);
      const { body: _, ...rest } = row;
      if (added.length > 0) all.push({ ...rest, verdicts, added });
    }
  }
  return all;
}
