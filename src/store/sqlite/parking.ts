import { isTruncated, parseEnvelope } from "../../event/envelope.ts";
import type { RouteVerdict } from "../../event/plan.ts";
import type { Tracking } from "../../event/tracking.ts";
import type { DueDelivery } from "../planned.ts";
import type { Rules } from "../rules.ts";
import { dispositionCode } from "./codes.ts";
import type { Names } from "./names.ts";
import type { Db } from "./open.ts";
import type { PlanDeliveries } from "./plan-deliveries.ts";
import type { Plans } from "./plans.ts";

interface ParkedRow {
  seq: number;
  account: number;
  source: number;
  body: Buffer;
  status: string | null;
  previous_status: string | null;
  moved: number;
  error_code: string | null;
  plan: number;
  received_at: number;
  disposition: number;
}

type Facts = Pick<Tracking, "subject" | "tracked" | "id" | "reference" | "metadata">;

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
  const expired = db.prepare<[number, number], ParkedRow>(
    `SELECT ${columns} FROM events WHERE parked_until <= ? ORDER BY parked_until LIMIT ?`,
  );
  const end = db.prepare<[number, number, number]>("UPDATE events SET parked_until = NULL, disposition = ?, plan = ? WHERE seq = ?");

  /** The kept verdicts with those that were parked replaced by what `again` says. */
  function conclude(row: ParkedRow, again: (route: string) => RouteVerdict): { plan: number; released: RouteVerdict[] } {
    const released: RouteVerdict[] = [];
    const verdicts = plans.verdictsOf(row.plan).map(([route, verdict, reason]): RouteVerdict => {
      if (verdict === "skip") return { route, verdict, reason: reason ?? "" };
      if (verdict === "deliver") return { route, verdict };
      const settled = again(route);
      released.push(settled);
      return settled;
    });
    return { plan: plans.idOf({ disposition: "forwarded", verdicts }), released };
  }

  return {
    /** Registration came in time: the routes that held an event back judge it anew, now that it is tracked. */
    release(subject: number, facts: Facts, at: number): DueDelivery[] {
      const due: DueDelivery[] = [];
      for (const row of ofSubject.all(subject)) {
        const parsed = parseEnvelope(row.body);
        if (!parsed.ok) continue;
        const { envelope } = parsed;
        const to = row.status;
        const fresh = rules.plan(
          {
            event: envelope.event,
            account: names.nameOf(row.account),
            source: names.nameOf(row.source),
            status: row.status,
            errorCode: row.error_code,
            data: envelope.data,
            truncated: isTruncated(envelope),
          },
          {
            ...facts,
            previousStatus: row.previous_status,
            status: to,
            errorCode: row.error_code,
            transition: row.moved === 1 && to !== null ? { from: row.previous_status, to } : null,
          },
        );
        const byRoute = new Map(fresh.verdicts.map((verdict) => [verdict.route, verdict]));
        const { plan, released } = conclude(row, (route) => byRoute.get(route) ?? { route, verdict: "skip", reason: "route removed" });
        const forwarded = row.disposition === dispositionCode.forwarded || released.some((verdict) => verdict.verdict === "deliver");
        end.run(forwarded ? dispositionCode.forwarded : dispositionCode.filtered, plan, row.seq);
        due.push(...planDeliveries(row.seq, subject, { disposition: "forwarded", verdicts: released }, at, null));
      }
      return due;
    },
    /** Ends up to `limit` events whose time is up; gives how many it ended. */
    expire(now: number, limit: number): number {
      const rows = expired.all(now, limit);
      for (const row of rows) {
        const { plan } = conclude(row, (route) => ({ route, verdict: "skip", reason: "untracked" }));
        end.run(row.disposition === dispositionCode.forwarded ? dispositionCode.forwarded : dispositionCode.ignored, plan, row.seq);
      }
      return rows.length;
    },
  };
}
