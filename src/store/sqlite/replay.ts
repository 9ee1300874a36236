import { addVerdicts } from "../../track/backfill.ts";
import { nothingTracked } from "../../track/facts.ts";
import { replan } from "../../track/planning.ts";
import type { BackfillFilter, ReplayCursor, Replayed, ReplayFilter, ReplayFound, Retried } from "../port.ts";
import type { DueDelivery } from "../rules.ts";

import type { Db } from "./file.ts";
import { dispositionCode, type Names, stateCode } from "./names.ts";
import type { PlanningParts } from "./parking.ts";
import { createHasOpen, type PlannedRow, storedEvent } from "./plans.ts";
import { type Condition, joinConditions } from "./query.ts";
import type { DeliveryRow, EventRow } from "./rows.ts";
import { subjectFacts } from "./track.ts";

type StoredRow = Pick<DeliveryRow, "event" | "route" | "subject" | "state">;

/** Makes settled deliveries wait again, in order and under their old ids. */
export function createReplay(db: Db, names: Names) {
  const hasOpen = createHasOpen(db);
  const one = db.prepare<[number, number], StoredRow>("SELECT event, route, subject, state FROM deliveries WHERE event = ? AND route = ?");
  const again = db.prepare<[number, number | null, number, number]>(
    "UPDATE deliveries SET state = ?, next_at = ?, spent = 0, replays = replays + 1, settled_at = NULL, reason = NULL, cause = NULL WHERE event = ? AND route = ?",
  );
  const sooner = db.prepare<[number, number, number]>("UPDATE deliveries SET next_at = ? WHERE event = ? AND route = ?");

  function requeue(row: StoredRow, at: number): DueDelivery | null {
    const held = row.subject !== null && hasOpen(row.subject, row.route);
    again.run(held ? stateCode.held : stateCode.waiting, held ? null : at, row.event, row.route);
    return held ? null : { route: names.nameOf(row.route), event: row.event, at };
  }

  function goNow(row: StoredRow, at: number): DueDelivery {
    sooner.run(at, row.event, row.route);
    return { route: names.nameOf(row.route), event: row.event, at };
  }

  return {
    /** Finds matching deliveries, a few rows per call. Writes nothing. */
    look: createReplayWalk(db, names),
    /** Makes those of `found` that are still in these states go out now. Call it inside a transaction. */
    replay(found: readonly { event: number; route: string }[], states: ReplayFilter["states"], at: number): Replayed {
      const due: DueDelivery[] = [];
      let replayed = 0;
      const codes = states.map((state) => stateCode[state]);
      for (const { event, route } of found) {
        const id = names.find("route", route);
        const row = id === null ? undefined : one.get(event, id);
        // It may have been retried or purged since it was found.
        if (row === undefined || !codes.includes(row.state)) continue;
        const delivery = row.state === stateCode.waiting ? goNow(row, at) : requeue(row, at);
        if (delivery !== null) due.push(delivery);
        replayed += 1;
      }
      return { replayed, due };
    },
    /** Retries one delivery: a settled one waits again, a waiting one goes out at once. Call it inside a transaction. */
    retry(event: number, route: string, at: number): Retried | null {
      const id = names.find("route", route);
      const row = id === null ? undefined : one.get(event, id);
      if (row === undefined) return null;
      if (row.state === stateCode.held) return { state: "held", due: null };
      if (row.state === stateCode.waiting) return { state: "waiting", due: goNow(row, at) };
      const due = requeue(row, at);
      return { state: due === null ? "held" : "waiting", due };
    },
  };
}

const eventConditions = ({ errorCode, from, to }: Pick<ReplayFilter, "errorCode" | "from" | "to">): Condition[] => [
  ["e.error_code = @errorCode", errorCode],
  ["e.received_at >= @from", from],
  ["e.received_at < @to", to],
];

interface WalkedRow {
  event: number;
  route: number;
  matches: number;
}

/**
 * One pass over the deliveries. Each call reads `limit` rows (about a microsecond each), matching or not, so that
 * no filter delays receiving. The pass only goes forward, so it meets no delivery twice.
 */
function createReplayWalk(db: Db, names: Names) {
  return function look(filter: ReplayFilter, cursor: ReplayCursor, now: number, limit: number): ReplayFound {
    const route = filter.route === undefined ? undefined : names.find("route", filter.route);
    if (route === null) return { found: [], cursor: null };
    const { where, values } = joinConditions(
      [
        [`d.state IN (${filter.states.map((state) => stateCode[state]).join(", ")})`, true],
        // A time in the future was written under a wrong clock, not during this walk.
        ["(d.settled_at <= @since OR d.settled_at > @now)", isOfWaiting(filter) ? undefined : now],
        // What is due goes out without a retry.
        ["d.next_at > @now", isOfWaiting(filter) ? now : undefined],
        ["d.route = @onlyRoute", route],
        ["d.cause IS @cause", filter.cause],
        ...eventConditions(filter),
      ],
      { since: cursor.since, event: cursor.event, route: Number(cursor.route), limit },
    );
    const rows = db.prepare<[typeof values], WalkedRow>(statement(filter, where)).all(values);
    const last = rows.at(-1);
    return {
      found: rows.filter(({ matches }) => matches === 1).map(({ event, route }) => ({ event, route: names.nameOf(route) })),
      cursor: last === undefined || rows.length < limit ? null : { since: cursor.since, event: last.event, route: last.route },
    };
  };
}

const isOfWaiting = ({ states }: ReplayFilter): boolean => states.includes("waiting");

/** Dead deliveries have an index by route. All others are read in the order of acceptance. */
function statement(filter: ReplayFilter, condition: string): string {
  const onlyDead = filter.states.every((state) => state === "dead");
  const columns = "event, route, state, settled_at, next_at, cause";
  const looked = onlyDead
    ? `SELECT ${columns} FROM deliveries INDEXED BY deliveries_dead
       WHERE state = ${stateCode.dead} AND (route, event) > (@route, @event) ORDER BY route, event LIMIT @limit`
    : `SELECT ${columns} FROM deliveries
       WHERE (event, route) > (@event, @route) ORDER BY event, route LIMIT @limit`;
  const ofEvent = filter.errorCode !== undefined || filter.from !== undefined || filter.to !== undefined;
  const joined = ofEvent ? "LEFT JOIN events e ON e.seq = d.event" : "";
  const order = onlyDead ? "d.route, d.event" : "d.event, d.route";
  return `SELECT d.event, d.route, coalesce(${condition}, 0) AS matches FROM (${looked}) d ${joined} ORDER BY ${order}`;
}

type BackfilledRow = PlannedRow & Pick<EventRow, "seq" | "received_at" | "subject" | "plan" | "disposition">;

/**
 * Backfill: after a late registration or a new route, ignored or filtered events get their deliveries. A route never gets
 * an event twice (promise 2): planned deliveries stay, and only new verdicts are added.
 */
export function createBackfill(db: Db, { names, plans, rules, messages, runs, planDeliveries, history }: PlanningParts) {
  const one = db.prepare<[number], BackfilledRow>(
    `SELECT seq, account, source, received_at, body, subject, status, previous_status, moved, error_code, plan, disposition
     FROM events WHERE seq = ?`,
  );
  const conclude = db.prepare<[number, number]>(
    `UPDATE events SET disposition = ${dispositionCode.routed}, plan = ?, fault = NULL WHERE seq = ?`,
  );
  const mark = db.prepare<[number, number]>("UPDATE deliveries SET replays = 1 WHERE event = ? AND route = ?");

  function planOf(row: BackfilledRow, only: string | undefined) {
    const kept = row.plan === null ? [] : plans.verdictsOf(row.plan);
    const facts = row.subject === null ? nothingTracked : subjectFacts(row.subject, messages, runs);
    return addVerdicts(kept, replan(rules, storedEvent(row, names), facts) ?? [], only);
  }

  return {
    /** The next matching events with their new routes, out of `limit` that it reads. Writes nothing. */
    look(filter: BackfillFilter, cursor: ReplayCursor, limit: number): ReplayFound {
      const { where, values } = joinConditions(
        [
          ["e.disposition = @disposition", dispositionCode[filter.disposition]],
          ["e.received_at <= @since", cursor.since],
          ...eventConditions(filter),
        ],
        { event: cursor.event, limit },
      );
      const rows = db
        .prepare<[typeof values], { seq: number; matches: number }>(
          `SELECT e.seq, coalesce(${where}, 0) AS matches
           FROM (SELECT * FROM events WHERE seq > @event ORDER BY seq LIMIT @limit) e ORDER BY e.seq`,
        )
        .all(values);
      const found = rows
        .filter(({ matches }) => matches === 1)
        .flatMap(({ seq }) => {
          const row = one.get(seq);
          return row === undefined ? [] : planOf(row, filter.route).added.map(({ route }) => ({ event: seq, route }));
        });
      const last = rows.at(-1);
      return { found, cursor: last === undefined || rows.length < limit ? null : { since: cursor.since, event: last.seq, route: 0 } };
    },
    /** Plans the deliveries of those events that still match. Call it inside a transaction. */
    plan(events: readonly number[], { disposition, route: only }: BackfillFilter, at: number): Replayed {
      const due: DueDelivery[] = [];
      let replayed = 0;
      for (const seq of events) {
        const row = one.get(seq);
        if (row === undefined || row.disposition !== dispositionCode[disposition]) continue;
        const { verdicts, added } = planOf(row, only);
        if (added.length === 0) continue;
        conclude.run(plans.idOf({ verdicts }), seq);
        history.move(row.source, row.received_at, row.disposition, dispositionCode.routed);
        due.push(...planDeliveries(seq, row.subject, { verdicts: added }, at, null));
        for (const { route } of added) mark.run(seq, names.idOf("route", route));
        replayed += added.length;
      }
      return { replayed, due };
    },
  };
}
