import type { RouteVerdict } from "../../event/plan.ts";
import type { Plans } from "./plans.ts";

/** The kept verdicts with those that were parked replaced by what `again` says. For inside a transaction. */
export function concludePlan(
  plans: Plans,
  kept: number,
  again: (route: string) => RouteVerdict,
): { readonly plan: number; readonly released: readonly RouteVerdict[]; readonly isDelivered: boolean } {
  const released: RouteVerdict[] = [];
  const verdicts = plans.verdictsOf(kept).map(([route, verdict, reason]): RouteVerdict => {
    if (verdict === "skip") return { route, verdict, reason: reason ?? "" };
    if (verdict === "deliver") return { route, verdict };
    const settled = again(route);
    released.push(settled);
    return settled;
  });
  // The disposition is the caller's to say; the verdicts alone are kept.
  const plan = plans.idOf({ disposition: "forwarded", verdicts });
  return { plan, released, isDelivered: verdicts.some(({ verdict }) => verdict === "deliver") };
}
