import type { DeliveryPlan } from "../event/plan.ts";
import type { Tracking } from "../event/tracking.ts";
import type { RoutedEvent } from "./routed-event.ts";
import type { RoutingSettings, UnknownPolicy } from "./settings.ts";

export type { RoutedEvent } from "./routed-event.ts";

export type Planner = (event: RoutedEvent, tracking: Tracking) => DeliveryPlan;

/** Signature first: what follows replaces this body. */
export function createPlanner(routes: readonly RoutingSettings[], _unknown: UnknownPolicy): Planner {
  const plan: DeliveryPlan = { disposition: "forwarded", verdicts: routes.map((route) => ({ route: route.name, verdict: "deliver" })) };
  return () => plan;
}
