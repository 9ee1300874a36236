import { hash } from "node:crypto";
import { type DeliveryPlan, keptVerdicts } from "../../model/plan.ts";
import type { RowOf } from "../schema/table.ts";
import { plans } from "../schema/tables.ts";
import { look } from "../sql/ops.ts";

export interface NumberedPlan {
  /** The first 48 bits of the SHA-256 of `verdicts`. */
  readonly id: number;
  /** JSON of the kept verdicts. */
  readonly verdicts: string;
}

/** The settings make few plans. A reload may make others, so the memory of stored ones is cleared at this number. */
const mostKnown = 10_000;

export const knownPlan = look(plans, ["id"], ["verdicts"]);

/** Each plan once, in the order in which two transactions insert them. */
export function distinctPlans(all: readonly NumberedPlan[]): NumberedPlan[] {
  return [...new Map(all.map((plan) => [plan.id, plan])).values()].sort((a, b) => a.id - b.id);
}

/** The plans that are not stored yet. `known`: what is stored under their numbers. */
export function unstoredPlans(
  given: readonly NumberedPlan[],
  known: readonly (Pick<NumberedPlan, "verdicts"> | undefined)[],
): RowOf<typeof plans>[] {
  for (const [place, stored] of known.entries()) {
    if (stored !== undefined && stored.verdicts !== given[place]?.verdicts)
      throw new Error(`two plans have the number ${given[place]?.id}`);
  }
  return given.filter((_, place) => known[place] === undefined).map(({ id, verdicts }) => ({ id, verdicts }));
}

export type PlanNumbers = ReturnType<typeof createPlanNumbers>;

/** The numbers of plans, and which of them are stored. */
export function createPlanNumbers() {
  // The planner returns the same object for the same verdicts, so nearly all are found by identity.
  const byIdentity = new WeakMap<DeliveryPlan["verdicts"], NumberedPlan>();
  const stored = new Set<number>();
  return {
    numberOf({ verdicts }: Pick<DeliveryPlan, "verdicts">): NumberedPlan {
      let plan = byIdentity.get(verdicts);
      if (plan === undefined) {
        const text = JSON.stringify(keptVerdicts({ verdicts }));
        plan = { id: Number.parseInt(hash("sha256", text).slice(0, 12), 16), verdicts: text };
        byIdentity.set(verdicts, plan);
      }
      return plan;
    },
    isStored: (id: number): boolean => stored.has(id),
    /** Call it after the commit. */
    noteStored(plans: readonly NumberedPlan[]): void {
      if (stored.size > mostKnown) stored.clear();
      for (const { id } of plans) stored.add(id);
    },
  };
}
