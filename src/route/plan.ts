import type { DeliveryPlan, Disposition, RouteVerdict } from "../event/plan.ts";
import type { RoutedEvent } from "../event/routed-event.ts";
import type { Tracking } from "../event/tracking.ts";
import { compileRoute } from "./compile-route.ts";
import { createPlanCache } from "./plan-cache.ts";
import type { RoutingSettings, UnknownPolicy } from "./settings.ts";

export type { RoutedEvent } from "../event/routed-event.ts";

/**
 * Decides what each route does with an event, from the event and what tracking made of it, and nothing else.
 * Never throws for any data. The plan is frozen and shared: the same verdicts give the same object, as a rule
 * (a bounded cache forgets), so that a store can keep by identity what it knows of a plan.
 */
export type Planner = (event: RoutedEvent, tracking: Tracking) => DeliveryPlan;

/** `routes` in the order of the settings, `unknown` from `tracking.unknown`; see docs/routing.md. */
export function createPlanner(routes: readonly RoutingSettings[], unknown: UnknownPolicy): Planner {
  const compiled = routes.map((route) => compileRoute(route, unknown));
  const ignored = new Set(compiled.map((route) => route.ignored));
  const planOf = createPlanCache((verdicts) =>
    Object.freeze({ disposition: dispositionOf(verdicts, ignored), verdicts: Object.freeze([...verdicts]) }),
  );
  // One array for all events: a plan is copied from it only when it is new.
  const verdicts: RouteVerdict[] = compiled.map((route) => route.ignored);
  return (event, tracking) => {
    let index = 0;
    for (const route of compiled) verdicts[index++] = route.judge(event, tracking);
    return planOf(verdicts);
  };
}

function dispositionOf(verdicts: readonly RouteVerdict[], ignored: ReadonlySet<RouteVerdict>): Disposition {
  if (verdicts.some((verdict) => verdict.verdict === "deliver")) return "forwarded";
  if (verdicts.some((verdict) => verdict.verdict === "park")) return "parked";
  return verdicts.some((verdict) => ignored.has(verdict)) ? "ignored" : "filtered";
}
