import { events, queue, queueState, subjects } from "../schema/tables.ts";
import { ask, find, look, rows, type Work } from "../sql/ops.ts";
import { as, raw, select } from "../sql/sql.ts";
import type { Held } from "../views.ts";
import { keyOf, keyOfRun } from "../work/subject-rows.ts";

const e = as(events, "e");
const q = as(queue, "q");
const subjectOf = look(subjects, ["key", "account"], ["seq"]);

/** Seqs of the events about a message or run, oldest first. */
export function* eventsOf(type: "message" | "run", account: string, name: string, after: number, limit: number): Work<number[]> {
  const [subject] = yield* ask(find(subjectOf, [[type === "run" ? keyOfRun(name) : keyOf(name), account]]));
  if (subject === undefined) return [];
  // Otherwise PostgreSQL might read all events in the order of their seqs.
  const order = raw("e.seq", "e.seq + 0");
  const found = yield* rows(
    select({ seq: e.seq })`FROM events e WHERE e.subject = ${subject.seq} AND e.seq > ${after} ORDER BY ${order} LIMIT ${limit}`,
  );
  return found.map(({ seq }) => seq);
}

/** What a held delivery waits for: the delivery of its lane that is out, or an event that is parked before it. */
export function* heldBehind(event: number, route: string): Work<Held | null> {
  const [own] = yield* ask(find(look(events, ["seq"], ["subject"]), [[event]]));
  const lane = own?.subject ?? null;
  if (lane === null) return null;
  const open = yield* rows(
    select({ event: q.event, state: q.state })`FROM queue q WHERE q.lane = ${lane} AND q.route = ${route} ORDER BY q.event`,
  );
  if (!open.some((one) => one.event === event && one.state === queueState.held)) return null;
  const first = open.find(({ state }) => state === queueState.waiting) ?? open.find(({ state }) => state === queueState.parked);
  if (first === undefined) return null;
  return { behind: first.event, ahead: open.filter((one) => one.state === queueState.held && one.event < event).length };
}
