import type { DeliveryPlan, RouteVerdict } from "../event/plan.ts";

/** A route's verdict as it is kept: `[route, verdict, reason?]`. */
export type KeptVerdict = readonly [route: string, verdict: RouteVerdict["verdict"], reason?: string];

export function keptVerdicts({ verdicts }: Pick<DeliveryPlan, "verdicts">): KeptVerdict[] {
  return verdicts.map((v) => (v.verdict === "skip" ? [v.route, v.verdict, v.reason] : [v.route, v.verdict]));
}

function verdictOf([route, verdict, reason]: KeptVerdict): RouteVerdict {
  return verdict === "skip" ? { route, verdict, reason: reason ?? "" } : { route, verdict };
}

/** The kept verdicts with those that were parked replaced by what `again` says; `released` are these. */
export function concludeVerdicts(
  kept: readonly KeptVerdict[],
  again: (route: string) => RouteVerdict,
): { readonly verdicts: readonly RouteVerdict[]; readonly released: readonly RouteVerdict[]; readonly isDelivered: boolean } {
  const released: RouteVerdict[] = [];
  const verdicts = kept.map((one): RouteVerdict => {
    const [route, verdict] = one;
    if (verdict !== "park") return verdictOf(one);
    const settled = again(route);
    released.push(settled);
    return settled;
  });
  return { verdicts, released, isDelivered: verdicts.some(({ verdict }) => verdict === "deliver") };
}

/** Stands for the verdicts on an event that could not be planned. */
export const planningFailed: readonly RouteVerdict[] = Object.freeze([]);

/** What a fresh judgement says of a route that a kept plan parked; a route that is no more gets nothing. */
export function againBy(fresh: readonly RouteVerdict[]): (route: string) => RouteVerdict {
  const byRoute = new Map(fresh.map((verdict) => [verdict.route, verdict]));
  const reason = fresh === planningFailed ? "planning failed" : "route removed";
  return (route) => byRoute.get(route) ?? { route, verdict: "skip", reason };
}

/**
 * Verdicts as they are when an event that went nowhere is judged anew: what was planned stays, for a route never gets an
 * event twice (promise 2), and `added` are the deliveries that are new. `only`: for no other route.
 */
export function addVerdicts(
  kept: readonly KeptVerdict[],
  judged: readonly RouteVerdict[],
  only: string | undefined,
): { readonly verdicts: readonly RouteVerdict[]; readonly added: readonly RouteVerdict[] } {
  const known = new Map(kept.map((one) => [one[0], verdictOf(one)]));
  const added = judged.filter(
    ({ route, verdict }) => verdict === "deliver" && (only === undefined || route === only) && known.get(route)?.verdict !== "deliver",
  );
  for (const verdict of added) known.set(verdict.route, verdict);
  return { verdicts: [...known.values()], added };
}

/**
 * The plan of an event that comes while earlier ones of its message are being released: a route that held those back holds
 * this one back too, or it would overtake them. `unregistered`: what the routes make of it when nobody has registered it.
 */
export function heldBehind(plan: DeliveryPlan, unregistered: DeliveryPlan): DeliveryPlan {
  const verdicts = plan.verdicts.map((verdict, index) => {
    const before = unregistered.verdicts[index];
    return verdict.verdict === "deliver" && before?.verdict === "park" ? before : verdict;
  });
  const has = (word: RouteVerdict["verdict"]): boolean => verdicts.some(({ verdict }) => verdict === word);
  return { ...plan, disposition: has("deliver") ? "forwarded" : has("park") ? "parked" : plan.disposition, verdicts };
}

/** A plan with the exchange that a `mode: proxy` source makes at once: a delivery that no dispatcher picks up. */
export function withProxy(plan: DeliveryPlan, route: string | null): DeliveryPlan {
  if (route === null) return plan;
  return { ...plan, disposition: "forwarded", verdicts: [{ route, verdict: "deliver" }, ...plan.verdicts] };
}
