import { dispositionCode } from "../codes.ts";
import type { Names } from "../names.ts";
import type { Db } from "../open.ts";
import { createPlans } from "../plans.ts";

/** What follows from the verdicts of one plan. */
export interface PlanFacts {
  /** Numbers of the routes that were to get the event, ascending. */
  readonly deliver: readonly number[];
  /** A route still waits for it. */
  readonly parks: boolean;
  /** Code of the disposition that an event with this plan has; by whether it is about a message or run. */
  readonly withSubject: number;
  readonly withoutSubject: number;
}

/** A route that no delivery was ever written for has no number. */
const unnumbered = -1;

/** Plans by number; null when there is none. Few events have a plan of their own, so each is read once. */
export function createPlanFacts(db: Db, names: Names): (plan: number) => PlanFacts | null {
  const exists = db.prepare<[number], number>("SELECT 1 FROM plans WHERE id = ?").pluck();
  const plans = createPlans(db);
  const known = new Map<number, PlanFacts | null>();

  function look(plan: number): PlanFacts | null {
    if (exists.get(plan) === undefined) return null;
    const verdicts = plans.verdictsOf(plan);
    const deliver = verdicts.filter(([, verdict]) => verdict === "deliver").map(([route]) => names.find("route", route) ?? unnumbered);
    const parks = verdicts.some(([, verdict]) => verdict === "park");
    // Of an event that is about no message the same reason means that nobody could have registered it.
    const isUntracked = verdicts.some(([, verdict, reason]) => verdict === "skip" && reason === "untracked");
    const { forwarded, parked, ignored, filtered } = dispositionCode;
    const given = deliver.length > 0 ? forwarded : parks ? parked : null;
    return {
      deliver: deliver.sort((a, b) => a - b),
      parks,
      withSubject: given ?? (isUntracked ? ignored : filtered),
      withoutSubject: given ?? filtered,
    };
  }

  return (plan) => {
    let facts = known.get(plan);
    // A name that a running relay writes later than its plan is looked for again.
    if (facts === undefined || facts?.deliver[0] === unnumbered) {
      facts = look(plan);
      known.set(plan, facts);
    }
    return facts;
  };
}
