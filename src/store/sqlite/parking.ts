import type { Facts } from "../../track/facts.ts";
import { expire, release } from "../../track/parking.ts";
import { replan } from "../../track/planning.ts";
import type { DueDelivery, Rules } from "../rules.ts";
import type { Db } from "./file.ts";
import type { HistoryWriter } from "./history.ts";
import { dispositionCode, type Names, type SubjectKey } from "./names.ts";
import { type PlanDeliveries, type PlannedRow, type Plans, storedEvent } from "./plans.ts";
import { inOneTurn } from "./purge.ts";
import { type Messages, type Runs, subjectFacts } from "./track.ts";

interface ParkedRow extends PlannedRow {
  seq: number;
  received_at: number;
  disposition: number;
  plan: number;
}

/** What planning a stored event again takes. */
export interface PlanningParts {
  names: Names;
  plans: Plans;
  rules: Rules;
  messages: Messages;
  runs: Runs;
  planDeliveries: PlanDeliveries;
  history: Pick<HistoryWriter, "move">;
}

/** Most events that the registrations of one transaction release. `releaseSome` releases the rest in steps. */
const releasedAtOnce = 50;
/** Events released between two looks at the clock. Each is read, parsed and planned. */
const releaseChunk = 10;

export type Parking = ReturnType<typeof createParking>;

/**
 * Releases parked events in order when their message is registered, or ends them when their time is up. Runs inside a
 * transaction. A message whose release is not finished is in `releases`. Until then its new events are parked too, so that
 * none overtakes (accept.ts), and its parked events do not expire.
 */
export function createParking(db: Db, { names, plans, rules, messages, runs, planDeliveries, history }: PlanningParts) {
  const columns = "seq, account, source, received_at, body, status, previous_status, moved, error_code, disposition, plan";
  const ofSubject = db.prepare<[number, number, number], ParkedRow>(
    `SELECT ${columns} FROM events WHERE subject = +? AND seq > +? AND parked_until IS NOT NULL ORDER BY seq LIMIT +?`,
  );
  const hasParked = db
    .prepare<[number, number], number>("SELECT 1 FROM events WHERE subject = +? AND seq > +? AND parked_until IS NOT NULL LIMIT 1")
    .pluck();
  const expired = db.prepare<[number, number], Pick<ParkedRow, "seq" | "source" | "received_at" | "disposition" | "plan">>(
    `SELECT seq, source, received_at, disposition, plan FROM events WHERE parked_until <= +? AND (subject IS NULL OR subject NOT IN (SELECT subject FROM releases))
     ORDER BY parked_until LIMIT +?`,
  );
  const end = db.prepare<[number, number, number]>("UPDATE events SET parked_until = NULL, disposition = ?, plan = ? WHERE seq = ?");
  const unfinished = db.prepare<[], { subject: number; after: number }>("SELECT subject, after FROM releases ORDER BY subject LIMIT 1");
  const isUnfinished = db.prepare<[number], number>("SELECT 1 FROM releases WHERE subject = ?").pluck();
  const keep = db.prepare<[number, number]>(
    "INSERT INTO releases (subject, after) VALUES (?, ?) ON CONFLICT (subject) DO UPDATE SET after = excluded.after",
  );
  const finish = db.prepare<[number]>("DELETE FROM releases WHERE subject = ?");

  let budget = releasedAtOnce;

  /** Matches an event again, now registered, for the routes that parked it. */
  function releaseOne(row: ParkedRow, subject: SubjectKey, facts: Facts, at: number, due: DueDelivery[]): void {
    const fresh = replan(rules, storedEvent(row, names), facts);
    if (fresh === null) return;
    const concluded = release(plans.verdictsOf(row.plan), fresh);
    const disposition = dispositionCode[concluded.disposition];
    end.run(disposition, plans.idOf(concluded), row.seq);
    history.move(row.source, row.received_at, row.disposition, disposition);
    due.push(...planDeliveries(row.seq, subject, { verdicts: concluded.released }, at, null));
  }

  /** Releases at most `most` events of a subject, and records whether more are left. Returns how many it released. */
  function releaseFrom(subject: SubjectKey, after: number, most: number, at: number, due: DueDelivery[]): number {
    const rows = ofSubject.all(subject, after, most);
    const facts = subjectFacts(subject, messages, runs);
    // Purged since its registration. Its parked events end when their time is up.
    if (!facts.tracked) {
      finish.run(subject);
      return 0;
    }
    for (const row of rows) releaseOne(row, subject, facts, at, due);
    const last = rows.at(-1)?.seq ?? after;
    const isMore = rows.length === most && hasParked.get(subject, last) !== undefined;
    if (isMore) keep.run(subject, last);
    else finish.run(subject);
    return rows.length;
  }

  return {
    /** Call it when a transaction begins. */
    begin(): void {
      budget = releasedAtOnce;
    },
    /** Releases the parked events of a newly registered subject. Leaves a large number to `releaseSome`. */
    release(subject: SubjectKey, at: number): DueDelivery[] {
      const due: DueDelivery[] = [];
      budget -= releaseFrom(subject, 0, budget, at, due);
      return due;
    },
    isReleasing: (subject: SubjectKey): boolean => isUnfinished.get(subject) !== undefined,
    /** Releases what registrations left, at most `limit` events and for one turn. Returns how many. */
    releaseSome(at: number, limit: number): { released: number; due: DueDelivery[] } {
      const due: DueDelivery[] = [];
      const released = inOneTurn(
        limit,
        (most) => {
          let taken = 0;
          for (let next = unfinished.get(); next !== undefined && taken < most; next = unfinished.get()) {
            taken += releaseFrom(next.subject, next.after, most - taken, at, due);
          }
          return taken;
        },
        releaseChunk,
      );
      return { released, due };
    },
    /**
     * Ends events whose time is up, at most `limit` and for one turn. Returns how many, 0 when there are none. The events of
     * a campaign share few plans, so each plan is concluded once, and no body is read.
     */
    expire(now: number, limit: number): number {
      const ends = new Map<number, { readonly disposition: number; readonly plan: number }>();
      return inOneTurn(limit, (most) => {
        const rows = expired.all(now, most);
        for (const row of rows) {
          let to = ends.get(row.plan);
          if (to === undefined) {
            const concluded = expire(plans.verdictsOf(row.plan));
            to = { disposition: dispositionCode[concluded.disposition], plan: plans.idOf(concluded) };
            ends.set(row.plan, to);
          }
          end.run(to.disposition, to.plan, row.seq);
          history.move(row.source, row.received_at, row.disposition, to.disposition);
        }
        return rows.length;
      });
    },
  };
}
