import type { RouteVerdict } from "../../event/plan.ts";
import { concludeVerdicts } from "../verdicts.ts";
import type { Plans } from "./plans.ts";

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
