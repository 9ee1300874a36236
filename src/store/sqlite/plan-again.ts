import { judgeAgain, nothingTracked } from "../facts.ts";
import type { DueDelivery } from "../planned.ts";
import type { PlanAgainFilter, ReplayCursor, Replayed, ReplayFound } from "../replay-filters.ts";
import type { Rules } from "../rules.ts";
import { addVerdicts } from "../verdicts.ts";
import { dispositionCode } from "./codes.ts";
import { type JudgedRow, judgedEvent } from "./judged-event.ts";
import type { Messages } from "./messages.ts";
import type { Names } from "./names.ts";
import type { Db } from "./open.ts";
import type { PlanDeliveries } from "./plan-deliveries.ts";
import type { Plans } from "./plans.ts";
import type { Runs } from "./runs.ts";
import { messageFacts, runFacts } from "./track.ts";

interface Row extends JudgedRow {
  seq: number;
  subject: number | null;
  plan: number | null;
  disposition: number;
}

interface Parts {
  names: Names;
  plans: Plans;
  rules: Rules;
  messages: Messages;
  runs: Runs;
  planDeliveries: PlanDeliveries;
}

/**
 * A registration that came too late, or a route added since: events that were ignored or filtered get their deliveries
 * after all. A route never gets one twice (promise 2): what was planned for it stays, and only new verdicts are added.
 */
export function createPlanAgain(db: Db, { names, plans, rules, messages, runs, planDeliveries }: Parts) {
  const one = db.prepare<[number], Row>(
    "SELECT seq, account, source, body, subject, status, previous_status, moved, error_code, plan, disposition FROM events WHERE seq = ?",
  );
  const conclude = db.prepare<[number, number]>(
    `UPDATE events SET disposition = ${dispositionCode.forwarded}, plan = ?, fault = NULL WHERE seq = ?`,
  );
  const mark = db.prepare<[number, number]>("UPDATE deliveries SET replays = 1 WHERE event = ? AND route = ?");

  function factsOf(subject: number | null) {
    if (subject === null) return nothingTracked;
    const seq = Math.floor(subject / 2);
    return subject % 2 === 0 ? messageFacts(messages.get(seq)) : runFacts(runs.get(seq));
  }

  function planOf(row: Row, only: string | undefined) {
    const kept = row.plan === null ? [] : plans.verdictsOf(row.plan);
    return addVerdicts(kept, judgeAgain(rules, judgedEvent(row, names), factsOf(row.subject)) ?? [], only);
  }

  return {
    /** The next events that a filter means, `limit` looked at, with the routes that would get them; writes nothing. */
    look(filter: PlanAgainFilter, cursor: ReplayCursor, limit: number): ReplayFound {
      const conditions = ["e.disposition = @disposition", "e.received_at <= @since"];
      const values: Record<string, number | string> = {
        disposition: dispositionCode[filter.disposition],
        since: cursor.since,
        event: cursor.event,
        limit,
      };
      for (const [name, condition] of [
        ["errorCode", "e.error_code = @errorCode"],
        ["from", "e.received_at >= @from"],
        ["to", "e.received_at < @to"],
      ] as const) {
        const value = filter[name];
        if (value === undefined) continue;
        conditions.push(condition);
        values[name] = value;
      }
      const rows = db
        .prepare<[typeof values], { seq: number; matches: number }>(
          `SELECT e.seq, coalesce(${conditions.join(" AND ")}, 0) AS matches
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
    /** Those of the events that still are what the filter means get their deliveries. For inside a transaction. */
    plan(events: readonly number[], { disposition, route: only }: PlanAgainFilter, at: number): Replayed {
      const due: DueDelivery[] = [];
      let replayed = 0;
      for (const seq of events) {
        const row = one.get(seq);
        if (row === undefined || row.disposition !== dispositionCode[disposition]) continue;
        const { verdicts, added } = planOf(row, only);
        if (added.length === 0) continue;
        conclude.run(plans.idOf({ disposition: "forwarded", verdicts }), seq);
        due.push(...planDeliveries(seq, row.subject, { disposition: "forwarded", verdicts: added }, at, null));
        for (const { route } of added) mark.run(seq, names.idOf("route", route));
        replayed += added.length;
      }
      return { replayed, due };
    },
  };
}
