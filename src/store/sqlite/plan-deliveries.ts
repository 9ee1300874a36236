import type { DeliveryPlan } from "../../event/plan.ts";
import type { DueDelivery } from "../planned.ts";
import type { Rules } from "../rules.ts";
import { type SubjectKey, stateCode } from "./codes.ts";
import { createHasOpen } from "./has-open.ts";
import type { Names } from "./names.ts";
import type { Db } from "./open.ts";

/** Writes the deliveries a plan asks for; gives those that may go out at once. */
export type PlanDeliveries = (
  event: number,
  subject: SubjectKey | null,
  plan: DeliveryPlan,
  at: number,
  proxyRoute: string | null,
) => DueDelivery[];

/**
 * A delivery whose message has an open one on the same route is `held`: it waits in the file until
 * that one is settled, so that order survives crashes and costs no memory (promise 3).
 */
export function createPlanDeliveries(db: Db, names: Names, rules: Rules): PlanDeliveries {
  const hasOpen = createHasOpen(db);
  const insert = db.prepare<[number, number, number, number | null, number | null]>(
    "INSERT INTO deliveries (event, route, state, subject, next_at, attempts, spent, replays) VALUES (?, ?, ?, ?, ?, 0, 0, 0)",
  );

  return (event, subject, plan, at, proxyRoute) => {
    const due: DueDelivery[] = [];
    for (const verdict of plan.verdicts) {
      if (verdict.verdict !== "deliver") continue;
      const route = names.idOf("route", verdict.route);
      if (verdict.route === proxyRoute) {
        insert.run(event, route, stateCode.waiting, null, null);
        continue;
      }
      const { ordered, firstWait } = rules.timing(verdict.route);
      const order = ordered ? subject : null;
      if (order !== null && hasOpen(order, route)) {
        insert.run(event, route, stateCode.held, order, null);
      } else {
        insert.run(event, route, stateCode.waiting, order, at + firstWait);
        due.push({ route: verdict.route, event, at: at + firstWait });
      }
    }
    return due;
  };
}
