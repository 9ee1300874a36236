import type { DeliveryPlan, RouteVerdict } from "../../event/plan.ts";
import { concludeVerdicts, type DueDelivery, type JudgedEvent, type KeptVerdict, keptVerdicts, type Rules } from "../rules.ts";
import { type Names, type SubjectKey, stateCode } from "./names.ts";
import type { Db } from "./open.ts";

export interface Plans {
  /** The number of a plan's verdicts; writes them when new, so only inside a transaction. */
  idOf(plan: DeliveryPlan): number;
  verdictsOf(id: number): readonly KeptVerdict[];
  forget(): void;
}

/** Keeps each distinct list of verdicts once. Reasons depend on the settings alone, so there are few. */
export function createPlans(db: Db): Plans {
  const select = db.prepare<[string], number>("SELECT id FROM plans WHERE verdicts = ?").pluck();
  const selectText = db.prepare<[number], string>("SELECT verdicts FROM plans WHERE id = ?").pluck();
  const insert = db.readonly ? null : db.prepare<[string]>("INSERT INTO plans (verdicts) VALUES (?)");
  // The planner gives the same object for the same verdicts, so identity finds nearly all of them.
  let byIdentity = new WeakMap<DeliveryPlan, number>();

  return {
    idOf(plan) {
      const known = byIdentity.get(plan);
      if (known !== undefined) return known;
      const text = JSON.stringify(keptVerdicts(plan));
      let id = select.get(text);
      if (id === undefined) {
        if (insert === null) throw new Error("plans cannot be written through a reader");
        id = Number(insert.run(text).lastInsertRowid);
      }
      byIdentity.set(plan, id);
      return id;
    },
    verdictsOf(id) {
      const text = selectText.get(id);
      return text === undefined ? [] : (JSON.parse(text) as KeptVerdict[]);
    },
    forget() {
      byIdentity = new WeakMap();
    },
  };
}

/** The kept verdicts with those that were parked replaced by what `again` says. For inside a transaction. */
export function concludePlan(
  plans: Plans,
  kept: number,
  again: (route: string) => RouteVerdict,
): { readonly plan: number; readonly released: readonly RouteVerdict[]; readonly isDelivered: boolean } {
  const { verdicts, ...concluded } = concludeVerdicts(plans.verdictsOf(kept), again);
  // The disposition is the caller's to say; the verdicts alone are kept.
  return { plan: plans.idOf({ disposition: "forwarded", verdicts }), ...concluded };
}

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

/**
 * Whether a message or run has an open delivery on a route, waiting or held: then the next one is held
 * behind it (promise 3). The condition is written as in the partial index `deliveries_open`.
 */
export function createHasOpen(db: Db): (subject: SubjectKey, route: number) => boolean {
  const open = db
    .prepare<[number, number], number>(
      "SELECT 1 FROM deliveries WHERE subject = ? AND route = ? AND state <= 1 AND subject IS NOT NULL LIMIT 1",
    )
    .pluck();
  return (subject, route) => open.get(subject, route) !== undefined;
}

/** The columns of an event that routes judge it by. */
export interface JudgedRow {
  account: number;
  source: number;
  body: Buffer;
  status: string | null;
  previous_status: string | null;
  moved: number;
  error_code: string | null;
}

export function judgedEvent(row: JudgedRow, names: Names): JudgedEvent {
  return {
    account: names.nameOf(row.account),
    source: names.nameOf(row.source),
    body: row.body,
    status: row.status,
    previousStatus: row.previous_status,
    errorCode: row.error_code,
    moved: row.moved === 1,
  };
}
