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
import {
  events,
  plans,
  queue,
  queueState,
  type RowOf,
  state,
  whereParked,
} from "../schema/tables.ts";
import {
  ask,
  change,
  find,
  insert,
  insertMissing,
  look,
  query,
  removal,
  remove,
  rows,
  together,
  update,
  type Work,
} from "../sql/ops.ts";
import { as, indexedBy, raw, select } from "../sql/sql.ts";
import { type Counts, countMoved } from "./counts.ts";
import {
  laneKey,
  laneOf,
  lookAround,
  type NumberedPlan,
  openInLane,
  overdue,
  type PlanNumbers,
  type Queued,
  queueRows,
  routesIn,
  sortedLanes,
  verdictsOf,
} from "./plans.ts";
import { factsOfRow, lockSubjects, type SubjectRow } from "./subject-rows.ts";

export interface ParkingParts {
  readonly rules: Rules;
  readonly plans: Pick<PlanNumbers, "numberOf">;
  readonly counts: () => Counts;
}

/** Hydration found polled statuses in its place (`replaced`), or did not. */
type Ending = SubjectRow | "expired" | "replaced" | "hydrated";

interface Parked {
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

/* A parked event has a row for each route that parked it, in the lane of its message or run, whose registration releases it. */

const q = as(queue, "q");
const s = as(state, "s");
const firstParked = look(queue, ["lane"], ["event"], { order: "event", where: whereParked });
const isParked = raw(`q.state = ${queueState.parked}`);
const byLane = indexedBy("queue_parked");

const parkedIn = (lane: number, limit: number) =>
  query(
    select({
      event: q.event,
    })`FROM queue q ${byLane} WHERE q.lane = ${lane} AND ${isParked} ORDER BY q.event LIMIT ${limit}`,
  );

const unfinished = removal(state);
const notesFrom = "release/";
const notesTo = "release0";
const noteOf = (subject: number) => `${notesFrom}${subject}`;
const mostSubjects = 50;

/** The subjects are locked. What is left for `releaseParked` holds what is accepted behind it. */
export function* releaseFor(
  subjects: readonly SubjectRow[],
  most: number,
  at: number,
  parts: ParkingParts,
) {
  const firsts = yield* ask(find(firstParked, subjects, ({ seq }) => [seq]));
  const having = subjects.filter((_, place) => firsts[place] !== undefined);
  if (having.length === 0) return { released: 0, freed: [], left: [] };
  const some = having.slice(0, most);
  const lists = yield* together(some.map(({ seq }) => parkedIn(seq, most)));
  const parked = new Map(
    lists.flatMap((list, place) =>
      list.map(({ event }) => [event, some[place] as SubjectRow] as const),
    ),
  );
  const next = [...parked].slice(0, most).map(([seq, ending]) => ({ seq, ending }));
  const { concluded, freed } = yield* conclude(next, at, parts);
  const more = yield* ask(find(firstParked, having, ({ seq }) => [seq]));
  return {
    released: concluded,
    freed,
    left: having.flatMap(({ seq }, place) => (more[place] === undefined ? [] : [seq])),
  };
}

export function* continueLater(subjects: readonly number[]): Work<void> {
  const notes = subjects.map((subject) => ({
    key: noteOf(subject),
    value: "{}",
    version: 1,
    until: null,
  }));
  yield insertMissing(state, notes);
}

export function* releaseParked(
  now: number,
  limit: number,
  parts: ParkingParts,
): Work<{ released: number; due: readonly DueDelivery[] }> {
  const notes = yield* rows(
    select({
      key: s.key,
    })`FROM state s WHERE s.key >= ${notesFrom} AND s.key < ${notesTo} ORDER BY s.key LIMIT ${mostSubjects}`,
  );
  if (notes.length === 0) return { released: 0, due: [] };
  const subjects = yield* lockSubjects(notes.map(({ key }) => Number(key.slice(notesFrom.length))));
  const { released, freed, left } = yield* releaseFor([...subjects.values()], limit, now, parts);
  const keep = new Set(left.map(noteOf));
  yield remove(
    unfinished,
    notes.filter(({ key }) => !keep.has(key)),
  );
  return { released, due: freed.map(({ due }) => due) };
}

/** Those that waited longest first. An event whose subject is registered meanwhile is released. */
export function* expireParked(
  now: number,
  limit: number,
  parts: ParkingParts,
): Work<{ concluded: number; due: readonly DueDelivery[] }> {
  const routes = yield* rows(routesIn(queueState.parked));
  const lists = yield* together(
    routes.map(({ route }) => query(overdue(queueState.parked, route, now, limit))),
  );
  const longest = lists.flat().sort((a, b) => a.at - b.at || a.event - b.event);
  const laneOfEvent = [...new Map(longest.map(({ event, lane }) => [event, lane]))].slice(0, limit);
  const subjects = yield* lockSubjects(laneOfEvent.flatMap(([, lane]) => (lane > 0 ? [lane] : [])));
  const parked = laneOfEvent.map(([seq, lane]): Parked => {
    const subject = subjects.get(lane);
    return {
      seq,
      ending: subject !== undefined && subject.registered_at !== null ? subject : "expired",
    };
  });
  const { concluded, freed } = yield* conclude(parked, now, parts);
  return { concluded, due: freed.map(({ due }) => due) };
}
