import type { DeliveryPlan, RouteVerdict } from "../event/plan.ts";

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
