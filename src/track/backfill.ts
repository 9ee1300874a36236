import { type KeptVerdict, type RouteVerdict, verdictOf } from "../model/plan.ts";

/**
 * The verdicts after a backfill. Planned deliveries stay, because a route never gets an event twice (promise 2). `added`
 * are the new deliveries. `only`: limits them to one route.
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
