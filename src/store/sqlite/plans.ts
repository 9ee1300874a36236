import type { DeliveryPlan } from "../../event/plan.ts";
import { type KeptVerdict, keptVerdicts } from "../verdicts.ts";
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
