import { type Disposition, type KeptVerdict, type RouteVerdict, verdictOf } from "../model/plan.ts";
import { planningFailed } from "./planning.ts";

/* Each of these replaces the `park` verdicts and gives the event its disposition. The other verdicts stay. */

export interface Concluded {
  readonly disposition: Disposition;
  readonly verdicts: readonly RouteVerdict[];
  /** The deliveries to plan now. */
  readonly released: readonly RouteVerdict[];
}

/** Its message was registered. */
export function release(kept: readonly KeptVerdict[], fresh: readonly RouteVerdict[]): Concluded {
  return conclude(kept, verdictIn(fresh), "filtered");
}

export function expire(kept: readonly KeptVerdict[]): Concluded {
  return conclude(kept, (route) => ({ route, verdict: "skip", reason: "untracked" }), "ignored");
}

export function isParked(kept: readonly KeptVerdict[]): boolean {
  return kept.some(([, verdict]) => verdict === "park");
}

export interface HydrationResult {
  /** Null: all candidates were read. */
  readonly reason: string | null;
  readonly found: number;
  readonly unknown: number;
}

export function isReplaced({ reason, found, unknown }: HydrationResult): boolean {
  return reason === null && found > 0 && unknown === 0;
}

/** Without a replacement. `fresh`: see `planTruncated`; null delivers it to every route that parked it. */
export function releaseTruncated(kept: readonly KeptVerdict[], fresh: readonly RouteVerdict[] | null): Concluded {
  return conclude(kept, fresh === null ? (route) => ({ route, verdict: "deliver" }) : verdictIn(fresh), "filtered");
}

export function dropReplaced(kept: readonly KeptVerdict[]): Concluded {
  return conclude(kept, (route) => ({ route, verdict: "skip", reason: "hydrated" }), "filtered");
}

/** `otherwise`: no route gets it. */
function conclude(kept: readonly KeptVerdict[], again: (route: string) => RouteVerdict, otherwise: Disposition): Concluded {
  const released: RouteVerdict[] = [];
  const verdicts = kept.map((one): RouteVerdict => {
    const [route, verdict] = one;
    if (verdict !== "park") return verdictOf(one);
    const concluded = again(route);
    released.push(concluded);
    return concluded;
  });
  return { disposition: verdicts.some(({ verdict }) => verdict === "deliver") ? "routed" : otherwise, verdicts, released };
}

/** A removed route is skipped. */
function verdictIn(fresh: readonly RouteVerdict[]): (route: string) => RouteVerdict {
  const byRoute = new Map(fresh.map((verdict) => [verdict.route, verdict]));
  const reason = fresh === planningFailed ? "planning failed" : "route removed";
  return (route) => byRoute.get(route) ?? { route, verdict: "skip", reason };
}

/** After a backfill. A route never gets an event twice (promise 2). `only`: limits new deliveries to one route. */
export function addVerdicts(
  kept: readonly KeptVerdict[],
  fresh: readonly RouteVerdict[],
  only: string | undefined,
): { readonly verdicts: readonly RouteVerdict[]; readonly added: readonly RouteVerdict[] } {
  const known = new Map(kept.map((one) => [one[0], verdictOf(one)]));
  const added = fresh.filter(
    ({ route, verdict }) => verdict === "deliver" && (only === undefined || route === only) && known.get(route)?.verdict !== "deliver",
  );
  for (const verdict of added) known.set(verdict.route, verdict);
  return { verdicts: [...known.values()], added };
}
