import { kept } from "../../model/maps.ts";
import { type Disposition, dispositions, type KeptVerdict } from "../../model/states.ts";
import {
  type Concluded,
  dropReplaced,
  expire,
  planTruncated,
  release,
  releaseTruncated,
  replan,
} from "../../track/planning.ts";
import type { DueDelivery, Rules } from "../port.ts";
import { codeOf } from "../schema/codes.ts";
import { events, plans, queue, queueState, type RowOf } from "../schema/tables.ts";
import {
  ask,
  change,
  find,
  insert,
  insertMissing,
  look,
  removal,
  remove,
  together,
  update,
  type Work,
} from "../sql/ops.ts";
import { type Counts, countMoved } from "./counts.ts";
import {
  laneKey,
  laneOf,
  lookAround,
  type NumberedPlan,
  openInLane,
  type PlanNumbers,
  type Queued,
  queueRows,
  sortedLanes,
  verdictsOf,
} from "./plans.ts";
import { factsOfRow, type SubjectRow } from "./subject-rows.ts";

export interface ParkingParts {
  readonly rules: Rules;
  readonly plans: Pick<PlanNumbers, "numberOf">;
  readonly counts: () => Counts;
}

/** Hydration found polled statuses in its place (`replaced`), or did not. */
type Ending = SubjectRow | "expired" | "replaced" | "hydrated";

export interface Parked {
  readonly seq: number;
  readonly ending: Ending;
}

interface Freed {
  readonly subject: number | null;
  readonly due: DueDelivery;
}

type Lane = readonly [lane: number, route: string];
type Event = Pick<RowOf<typeof events>, (typeof eventColumns)[number]>;

interface Open {
  readonly event: Event;
  readonly plan: number;
  readonly kept: readonly KeptVerdict[];
  readonly ending: Ending;
  readonly body: Buffer | null;
}

const eventColumns = [
  ...([
    "seq",
    "account",
    "source",
    "format",
    "subject",
    "received_at",
    "disposition",
    "plan",
  ] as const),
  ...(["status", "previous_status", "moved", "error_code"] as const),
] as const;
const eventOf = look(events, ["seq"], eventColumns);
const bodyOf = look(events, ["seq"], ["body"]);
const ownRow = look(queue, ["lane", "route", "event"], ["lane", "route", "event", "state"], {
  lock: "update",
});
/** In the order of the key: an index by state would find all that waits on the route. */
const outInLane = look(queue, ["lane", "route", "state"], ["event"], {
  order: "event",
  lock: "share",
});
const ends = change(events, ["disposition", "plan"]);
const parkedRow = removal(queue, { isLocked: true });
const goesOut = change(queue, ["state", "next_at"]);

/**
 * Releases or ends events. Their subjects are locked; only a settlement can change their lanes
 * meanwhile, and it locks the delivery that is out first, as this does.
 */
export function* conclude(
  parked: readonly Parked[],
  at: number,
  parts: ParkingParts,
): Work<{ readonly concluded: number; readonly freed: readonly Freed[] }> {
  if (parked.length === 0) return { concluded: 0, freed: [] };
  const found = yield* findOpen(parked);
  const lanes = lanesOf(found.flatMap(parkedKeys));
  const [out, own] = yield* together([
    find(outInLane, lanes, ([lane, route]) => [lane, route, queueState.waiting]),
    find(ownRow, sortedLanes(found.flatMap(parkedKeys))),
  ]);
  const removed = own.flatMap((row) => (row?.state === queueState.parked ? [row] : []));
  const stillParked = new Set(removed.map(({ event }) => event));
  const open = found.filter(({ event: { seq } }) => stillParked.has(seq));

  const counts = parts.counts();
  const decided = decide(open, at, parts, counts);
  const { unstored } = yield* lookAround(parts.rules, [], decided.numbers);
  yield* together([
    insertMissing(plans, unstored),
    update(ends, decided.ended),
    remove(parkedRow, removed),
    insert(queue, decided.queued),
  ]);
  const first = yield* letOut(
    lanes.filter((_, place) => out[place] === undefined),
    decided.atOf,
  );
  yield* counts.write();
  return {
    concluded: open.length,
    freed: [...decided.freed, ...first.map((due) => ({ subject: due.lane, due }))],
  };
}

function* findOpen(parked: readonly Parked[]): Work<Open[]> {
  const sorted = parked.toSorted((a, b) => a.seq - b.seq);
  const matched = sorted.filter(({ ending }) => ending !== "expired" && ending !== "replaced");
  const [rows, bodies] = yield* together([
    find(eventOf, sorted, ({ seq }) => [seq]),
    find(bodyOf, matched, ({ seq }) => [seq]),
  ]);
  const verdicts = yield* verdictsOf(rows.map((row) => row?.plan ?? null));
  const bodyOfEvent = new Map(matched.map(({ seq }, place) => [seq, bodies[place]?.body]));
  return sorted.flatMap(({ seq, ending }, place) => {
    const event = rows[place];
    if (event === undefined || event.plan === null) return [];
    return [
      {
        event,
        plan: event.plan,
        kept: verdicts.get(event.plan) ?? [],
        ending,
        body: bodyOfEvent.get(seq) ?? null,
      },
    ];
  });
}

function parkedKeys({
  event: { seq, subject },
  kept,
}: Open): [lane: number, route: string, event: number][] {
  return kept.flatMap(([route, verdict]) =>
    verdict === "park" ? [[subject ?? -seq, route, seq]] : [],
  );
}

function lanesOf(keys: readonly (readonly [number, string, number])[]): Lane[] {
  const lanes = new Map(
    keys.flatMap(([lane, route]) =>
      lane > 0 ? [[laneKey(lane, route), [lane, route] as const]] : [],
    ),
  );
  return sortedLanes([...lanes.values()]);
}

/** All that is ordered is held, until it is known what else is in its lane. */
function decide(open: readonly Open[], at: number, { rules, plans }: ParkingParts, counts: Counts) {
  const numbers: NumberedPlan[] = [];
  const ended: Pick<Event, "seq" | "disposition" | "plan">[] = [];
  const queued: Queued[] = [];
  const freed: Freed[] = [];
  const conclusion = createConclusion(rules);
  for (const one of open) {
    const { event } = one;
    const { seq, account, subject } = event;
    const concluded = conclusion(one);
    const number = plans.numberOf(concluded);
    numbers.push(number);
    ended.push({ seq, disposition: codeOf.disposition[concluded.disposition], plan: number.id });
    countMoved(
      counts,
      event,
      dispositions[event.disposition] as Disposition,
      concluded.disposition,
    );
    const planned = {
      seq,
      account,
      subject,
      receivedAt: at,
      verdicts: concluded.released,
      isHydrating: false,
      proxyRoute: null,
    };
    const ordered = lanesOf(
      concluded.released.map(({ route }) => [laneOf(rules, route, planned), route, seq]),
    );
    const { rows, due } = queueRows(
      rules,
      planned,
      new Set(ordered.map(([lane, route]) => laneKey(lane, route))),
    );
    queued.push(...rows);
    freed.push(...due.map((due) => ({ subject, due })));
  }
  const isNew = new Set(queued.map(({ route, event }) => laneKey(event, route)));
  const atOf = (route: string, event: number) =>
    at + (isNew.has(laneKey(event, route)) ? rules.timing(route).firstWait : 0);
  return { numbers, ended, queued, freed, atOf };
}

/** The events of a campaign share few plans. */
function createConclusion(rules: Rules) {
  const byPlan = { expired: new Map<number, Concluded>(), replaced: new Map<number, Concluded>() };

  const end = (one: Open, how: keyof typeof byPlan): Concluded =>
    kept(byPlan[how], one.plan, () => (how === "expired" ? expire : dropReplaced)(one.kept));

  return (one: Open): Concluded => {
    const { event, kept, ending, body } = one;
    if (ending === "expired" || ending === "replaced") return end(one, ending);
    if (ending === "hydrated")
      return releaseTruncated(
        kept,
        body === null ? null : planTruncated(rules, { ...event, body }),
      );
    const fresh =
      body === null ? null : replan(rules, storedEvent(event, body), factsOfRow(ending));
    return fresh === null ? end(one, "expired") : release(kept, fresh);
  };
}

type RoutedColumns = Pick<
  RowOf<typeof events>,
  "account" | "source" | "format" | "status" | "previous_status" | "error_code" | "moved"
>;

export function storedEvent(
  { account, source, format, status, previous_status, error_code, moved }: RoutedColumns,
  body: Buffer,
) {
  return {
    account,
    source,
    format,
    body,
    status,
    previousStatus: previous_status,
    errorCode: error_code,
    moved: moved === 1,
  };
}

/**
 * Lets out the first delivery of each lane, where none was out, unless an earlier event is parked.
 * One that a settlement has let out meanwhile is locked: its settlement then sees what is held
 * behind it.
 */
function* letOut(
  lanes: readonly Lane[],
  atOf: (route: string, event: number) => number,
): Work<DueDelivery[]> {
  const firsts = yield* ask(find(openInLane, lanes));
  const due = lanes.flatMap(([lane, route], place): DueDelivery[] => {
    const first = firsts[place];
    return first?.state === queueState.held
      ? [{ lane, route, event: first.event, at: atOf(route, first.event) }]
      : [];
  });
  yield* together([
    update(goesOut, due, ({ at, ...key }) => ({ ...key, state: queueState.waiting, next_at: at })),
  ]);
  return due;
}
