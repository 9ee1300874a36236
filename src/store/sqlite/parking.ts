import { type Facts, judgeAgain } from "../facts.ts";
import type { DueDelivery } from "../planned.ts";
import type { Rules } from "../rules.ts";
import { againBy } from "../verdicts.ts";
import { dispositionCode } from "./codes.ts";
import { concludePlan } from "./conclude-plan.ts";
import { type JudgedRow, judgedEvent } from "./judged-event.ts";
import type { Names } from "./names.ts";
import { inOneTurn } from "./one-turn.ts";
import type { Db } from "./open.ts";
import type { PlanDeliveries } from "./plan-deliveries.ts";
import type { Plans } from "./plans.ts";

interface ParkedRow extends JudgedRow {
  seq: number;
  plan: number;
  received_at: number;
  disposition: number;
}

interface Parts {
  names: Names;
  plans: Plans;
  rules: Rules;
  planDeliveries: PlanDeliveries;
}

/** Parked events: released by registration, in order, or ended when their time is up. For inside a transaction. */
export function createParking(db: Db, { names, plans, rules, planDeliveries }: Parts) {
  const columns = "seq, account, source, body, status, previous_status, moved, error_code, plan, received_at, disposition";
  const ofSubject = db.prepare<[number], ParkedRow>(
    `SELECT ${columns} FROM events WHERE subject = ? AND parked_until IS NOT NULL ORDER BY seq`,
  );
  const expired = db.prepare<[number, number], { seq: number; plan: number; disposition: number }>(
    "SELECT seq, plan, disposition FROM events WHERE parked_until <= ? ORDER BY parked_until LIMIT ?",
  );
  const end = db.prepare<[number, number, number]>("UPDATE events SET parked_until = NULL, disposition = ?, plan = ? WHERE seq = ?");

  return {
    /** Registration came in time: the routes that held an event back judge it anew, now that it is tracked. */
    release(subject: number, facts: Facts, at: number): DueDelivery[] {
      const due: DueDelivery[] = [];
      for (const row of ofSubject.all(subject)) {
        const fresh = judgeAgain(rules, judgedEvent(row, names), facts);
        if (fresh === null) continue;
        const { plan, released } = concludePlan(plans, row.plan, againBy(fresh));
        const forwarded = row.disposition === dispositionCode.forwarded || released.some((verdict) => verdict.verdict === "deliver");
        end.run(forwarded ? dispositionCode.forwarded : dispositionCode.filtered, plan, row.seq);
        due.push(...planDeliveries(row.seq, subject, { disposition: "forwarded", verdicts: released }, at, null));
      }
      return due;
    },
    /**
     * Ends events whose time is up, at most `limit` and no more than go into a turn; gives how many it ended, 0 when
     * there are none. A campaign's differ in little, so each distinct plan is concluded once, and no body is read.
     */
    expire(now: number, limit: number): number {
      const concluded = new Map<number, number>();
      return inOneTurn(limit, (most) => {
        const rows = expired.all(now, most);
        for (const row of rows) {
          let plan = concluded.get(row.plan);
          if (plan === undefined) {
            plan = concludePlan(plans, row.plan, (route) => ({ route, verdict: "skip", reason: "untracked" })).plan;
            concluded.set(row.plan, plan);
          }
          end.run(row.disposition === dispositionCode.forwarded ? dispositionCode.forwarded : dispositionCode.ignored, plan, row.seq);
        }
        return rows.length;
      });
    },
  };
}
