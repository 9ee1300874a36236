import { type DeliveryPlan, type KeptVerdict, keptVerdicts } from "../../model/plan.ts";
import type { StoredEvent } from "../../track/planning.ts";
import type { DueDelivery, Rules } from "../rules.ts";
import type { Db } from "./file.ts";
import { type Names, type SubjectKey, stateCode } from "./names.ts";
import type { EventRow } from "./rows.ts";

/** Only the verdicts of a plan are stored with it. The event's row has the disposition. */
export type Verdicts = Pick<DeliveryPlan, "verdicts">;

export type Plans = ReturnType<typeof createPlans>;

/** Stores each distinct list of verdicts once. Reasons depend only on the settings, so there are few. */
export function createPlans(db: Db) {
  const select = db.prepare<[string], number>("SELECT id FROM plans WHERE verdicts = ?").pluck();
  const selectText = db.prepare<[number], string>("SELECT verdicts FROM plans WHERE id = ?").pluck();
  const insert = db.readonly ? null : db.prepare<[string]>("INSERT INTO plans (verdicts) VALUES (?)");
  // The planner returns the same object for the same verdicts, so nearly all are found by identity.
  let byIdentity = new WeakMap<Verdicts, number>();

  return {
    /** The number of a plan's verdicts. Writes new ones, so call it inside a transaction. */
    idOf(plan: Verdicts): number {
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
    verdictsOf(id: number): readonly KeptVerdict[] {
      const text = selectText.get(id);
      return text === undefined ? [] : (JSON.parse(text) as KeptVerdict[]);
    },
    forget(): void {
      byIdentity = new WeakMap();
    },
  };
}

/** Writes the deliveries of a plan. Returns those that are not held. */
export type PlanDeliveries = (
  event: number,
  subject: SubjectKey | null,
  plan: Verdicts,
  at: number,
  proxyRoute: string | null,
) => DueDelivery[];

/**
 * A delivery whose message has an open one on the same route is `held` in the file until that one settles. The order then
 * survives crashes and costs no memory (promise 3).
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
 * Whether a message or run has a waiting or held delivery on a route, so that the next one is held (promise 3). The
 * condition matches the partial index `deliveries_open`.
 */
export function createHasOpen(db: Db): (subject: SubjectKey, route: number) => boolean {
  const open = db
    .prepare<[number, number], number>(
      "SELECT 1 FROM deliveries WHERE subject = ? AND route = ? AND state <= 1 AND subject IS NOT NULL LIMIT 1",
    )
    .pluck();
  return (subject, route) => open.get(subject, route) !== undefined;
}

/** The columns of an event that routes match. */
export type PlannedRow = Pick<EventRow, "account" | "source" | "body" | "status" | "previous_status" | "moved" | "error_code">;

export function storedEvent(row: PlannedRow, names: Names): StoredEvent {
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
