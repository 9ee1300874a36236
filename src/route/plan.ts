import type { DeliveryPlan, Disposition, RouteVerdict } from "../event/plan.ts";
import type { RoutedEvent } from "../event/routed-event.ts";
import type { Tracking } from "../event/tracking.ts";
import { compileRoute } from "./match.ts";
import type { RoutingSettings, UnknownPolicy } from "./settings.ts";

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

/**
 * Verdicts remembered at most, counted over all plans. Real settings make a few dozen plans; this bounds what
 * settings with many routes and reasons could make of hostile traffic, at about 2 MB.
 */
const defaultLimit = 10_000;

interface Node {
  readonly next: Map<RouteVerdict, Node>;
  plan: DeliveryPlan | null;
}

/**
 * Gives the same plan object for the same verdicts, found without building a key: verdicts are objects of which
 * each route has a few, and a tree of maps leads over them to the plan. When full it starts anew, so that
 * one plan may have several objects in the life of a process.
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
