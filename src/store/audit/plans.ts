import type { Disposition, KeptVerdict } from "../../model/plan.ts";
import { ask, find, type Work } from "../sql/ops.ts";
import { knownPlan } from "../work/plan-numbers.ts";
import { dispositionBy } from "./rules.ts";

/** What follows from a plan. */
export interface PlanFacts {
  /** Routes to deliver to. */
  readonly deliver: readonly string[];
  /** Routes that parked the event. */
  readonly park: readonly string[];
  /** The disposition of events with and without a message or run. */
  readonly withSubject: Disposition;
  readonly withoutSubject: Disposition;
}

/** The settings make few plans. A reload may make others, so the memory is cleared at this number. */
const mostKnown = 10_000;

/** Plans by number; null: there is none. Many events share a plan, so each is read once. */
export function createPlans() {
  const known = new Map<number, PlanFacts | null>();
  return function* factsOf(events: readonly { readonly plan: number | null }[]): Work<(plan: number | null) => PlanFacts | null> {
    if (known.size > mostKnown) known.clear();
    const wanted = [...new Set(events.flatMap(({ plan }) => plan ?? []))].filter((plan) => !known.has(plan));
    const found = yield* ask(
      find(
        knownPlan,
        wanted.map((plan) => [plan]),
      ),
    );
    for (const [place, plan] of wanted.entries()) {
      const row = found[place];
      known.set(plan, row === undefined ? null : factsOfVerdicts(JSON.parse(row.verdicts) as KeptVerdict[]));
    }
    return (plan) => (plan === null ? null : (known.get(plan) ?? null));
  };
}

function factsOfVerdicts(verdicts: readonly KeptVerdict[]): PlanFacts {
  const routesWith = (word: KeptVerdict[1]): string[] => verdicts.flatMap(([route, verdict]) => (verdict === word ? [route] : []));
  return {
    deliver: routesWith("deliver"),
    park: routesWith("park"),
    withSubject: dispositionBy(verdicts, true),
    withoutSubject: dispositionBy(verdicts, false),
  };
}
