import type { DeliveryPlan, Disposition, RoutedEvent, RouteVerdict } from "../model/plan.ts";
import type { Tracking } from "../model/tracking.ts";
import { compileRoute } from "./match.ts";
import type { RoutingSettings, UnknownPolicy } from "./settings.ts";

/**
 * From the event and its tracking state alone. Never throws for any data. Plans are frozen, and the same verdicts usually
 * give the same object, so a store can cache by identity.
 */
export type Planner = (event: RoutedEvent, tracking: Tracking) => DeliveryPlan;

/** `routes` in the order of the settings, `unknown` from `tracking.unknown`; see docs/concepts/routing.md. */
export function createPlanner(routes: readonly RoutingSettings[], unknown: UnknownPolicy): Planner {
  const compiled = routes.map((route) => compileRoute(route, unknown));
  const ignored = new Set(compiled.map((route) => route.ignored));
  const planOf = createPlanCache((verdicts) =>
    Object.freeze({ disposition: dispositionOf(verdicts, ignored), verdicts: Object.freeze([...verdicts]) }),
  );
  // One array for all events. Only a new plan copies it.
  const verdicts: RouteVerdict[] = compiled.map((route) => route.ignored);
  return (event, tracking) => {
    let index = 0;
    for (const route of compiled) verdicts[index++] = route.verdictOn(event, tracking);
    return planOf(verdicts);
  };
}

function dispositionOf(verdicts: readonly RouteVerdict[], ignored: ReadonlySet<RouteVerdict>): Disposition {
  if (verdicts.some((verdict) => verdict.verdict === "deliver")) return "routed";
  if (verdicts.some((verdict) => verdict.verdict === "park")) return "parked";
  return verdicts.some((verdict) => ignored.has(verdict)) ? "ignored" : "filtered";
}

/** Verdicts in the cache, over all plans. Real settings make a few dozen plans. Bounds hostile traffic at about 2 MB. */
const defaultLimit = 10_000;

interface Node {
  readonly next: Map<RouteVerdict, Node>;
  plan: DeliveryPlan | null;
}

/**
 * The same plan object for the same verdicts, without building a key: a tree of maps leads from the few verdict objects of
 * each route to the plan. A full cache is emptied.
 */
export function createPlanCache(make: (verdicts: readonly RouteVerdict[]) => DeliveryPlan, limit: number = defaultLimit) {
  let root: Node = { next: new Map(), plan: null };
  let nodes = 0;
  return (verdicts: readonly RouteVerdict[]): DeliveryPlan => {
    if (nodes > limit) {
      root = { next: new Map(), plan: null };
      nodes = 0;
    }
    let node = root;
    for (const verdict of verdicts) {
      let next = node.next.get(verdict);
      if (next === undefined) {
        next = { next: new Map(), plan: null };
        node.next.set(verdict, next);
        nodes += 1;
      }
      node = next;
    }
    node.plan ??= make(verdicts);
    return node.plan;
  };
}
