import type { Disposition, KeptVerdict } from "../../model/states.ts";
import {
  attempts,
  deliveries,
  events,
  hydrations,
  queue,
  queueState,
  type RowOf,
} from "../schema/tables.ts";
import { ask, find, look, query, rows, together, type Work } from "../sql/ops.ts";
import { as, pick, type RowFrom, select, sql, typed } from "../sql/sql.ts";
import { verdictsOf } from "../work/plans.ts";

/** On PostgreSQL a receiving process reads a slice in about 5 ms. */
const sliceEvents = 500;

const e = as(events, "e");
const d = as(deliveries, "d");
const a = as(attempts, "a");
const hasEnvelope = sql`e.id IS NOT NULL OR e.kind IS NOT NULL OR e.subject IS NOT NULL`;

const event = select({
  ...pick(
    e,
    "seq",
    "kind",
    "source",
    "secret",
    "subject",
    "status",
    "moved",
    "disposition",
    "plan",
    "duplicates",
    "conflicts",
    "release",
  ),
  receivedAt: e.received_at,
  previousStatus: e.previous_status,
  isBare: typed<number>(sql`CASE WHEN e.fault IS NULL OR ${hasEnvelope} THEN 0 ELSE 1 END`),
});
const settled = select(
  pick(d, "event", "route", "lane", "state", "attempts", "at", "status", "error", "reason"),
);
const attempt = select(pick(a, "event", "route", "at", "status", "error"));

export type EventRow = RowFrom<typeof event>;
export type SettledRow = RowFrom<typeof settled>;
export type AttemptRow = RowFrom<typeof attempt>;

export interface Slice {
  readonly to: number;
  readonly events: readonly EventRow[];
  readonly settled: ReadonlyMap<number, readonly SettledRow[]>;
  readonly attempts: ReadonlyMap<number, readonly AttemptRow[]>;
}

export function* readSlice(after: number, last: number): Work<Slice> {
  const found = yield* rows(
    event`FROM events e WHERE e.seq > ${after} AND e.seq <= ${last} ORDER BY e.seq LIMIT ${sliceEvents}`,
  );
  const to = found.length < sliceEvents ? last : (found.at(-1)?.seq ?? last);
  const [ofSettled, ofAttempts] = yield* together([
    query(
      settled`FROM deliveries d WHERE d.event > ${after} AND d.event <= ${to} ORDER BY d.event, d.route`,
    ),
    query(
      attempt`FROM attempts a WHERE a.event > ${after} AND a.event <= ${to} ORDER BY a.event, a.route`,
    ),
  ]);
  return {
    to,
    events: found,
    settled: Map.groupBy(ofSettled, (row) => row.event),
    attempts: Map.groupBy(ofAttempts, (row) => row.event),
  };
}

const openRow = look(
  queue,
  ["lane", "route", "event"],
  ["lane", "route", "event", "state", "next_at", "attempts"],
);
export type OpenRow = Pick<
  RowOf<typeof queue>,
  "lane" | "route" | "event" | "state" | "next_at" | "attempts"
>;

export interface MaybeOpen {
  readonly event: number;
  readonly subject: number | null;
  readonly route: string;
}

/** The queue has no index by event. */
export function* findOpen(
  wanted: readonly MaybeOpen[],
): Work<ReadonlyMap<number, readonly OpenRow[]>> {
  const keys = wanted.flatMap(({ event, subject, route }) =>
    (subject === null ? [-event] : [subject, -event]).map((lane) => [lane, route, event] as const),
  );
  const found = yield* ask(find(openRow, keys));
  return Map.groupBy(
    found.filter((row) => row !== undefined),
    (row) => row.event,
  );
}

const hydration = look(hydrations, ["event"], ["event", "state"]);

export function* findHydrating(seqs: readonly number[], state: number): Work<ReadonlySet<number>> {
  const found = yield* ask(find(hydration, seqs, (seq) => [seq]));
  return new Set(found.flatMap((row) => (row?.state === state ? [row.event] : [])));
}

export const isParkedRow = ({ state }: Pick<OpenRow, "state">): boolean =>
  state === queueState.parked;

export interface PlanFacts {
  readonly deliver: readonly string[];
  readonly park: readonly string[];
  readonly withSubject: Disposition;
  readonly withoutSubject: Disposition;
}

/** A reload makes other plans, so the memory has a bound. */
const mostKnown = 10_000;

export function createPlans() {
  const known = new Map<number, PlanFacts | null>();
  return function* factsOf(
    events: readonly { readonly plan: number | null }[],
  ): Work<(plan: number | null) => PlanFacts | null> {
    if (known.size > mostKnown) known.clear();
    const wanted = [...new Set(events.flatMap(({ plan }) => plan ?? []))].filter(
      (plan) => !known.has(plan),
    );
    const found = yield* verdictsOf(wanted);
    for (const plan of wanted) {
      const verdicts = found.get(plan);
      known.set(plan, verdicts === undefined ? null : factsOfVerdicts(verdicts));
    }
    return (plan) => (plan === null ? null : (known.get(plan) ?? null));
  };
}

function factsOfVerdicts(verdicts: readonly KeptVerdict[]): PlanFacts {
  const routesWith = (word: KeptVerdict[1]): string[] =>
    verdicts.flatMap(([route, verdict]) => (verdict === word ? [route] : []));
  return {
    deliver: routesWith("deliver"),
    park: routesWith("park"),
    withSubject: dispositionBy(verdicts, true),
    withoutSubject: dispositionBy(verdicts, false),
  };
}

function dispositionBy(verdicts: readonly KeptVerdict[], hasSubject: boolean): Disposition {
  const has = (word: KeptVerdict[1]): boolean => verdicts.some(([, verdict]) => verdict === word);
  if (has("deliver")) return "routed";
  if (has("park")) return "parked";
  // Without a message or run, this reason means that the event cannot be registered.
  return hasSubject && verdicts.some(([, , reason]) => reason === "untracked")
    ? "ignored"
    : "filtered";
}
