import type { DueDelivery } from "../port.ts";
import { queue, queueState, state, whereParked } from "../schema/tables.ts";
import {
  ask,
  find,
  insertMissing,
  look,
  query,
  removal,
  remove,
  rows,
  together,
  type Work,
} from "../sql/ops.ts";
import { as, indexedBy, raw, select } from "../sql/sql.ts";
import { conclude, type Parked, type ParkingParts } from "./conclude.ts";
import { overdue, routesIn } from "./plans.ts";
import { lockSubjects, type SubjectRow } from "./subject-rows.ts";

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
