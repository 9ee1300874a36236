import type { ApiFaultSettings } from "../faults.ts";
import type { Random } from "../random.ts";
import { apiRoot } from "./gate.ts";

/** The fault that a call meets, and null when it meets none. `route`: the path of its route; undefined when there is none. */
export type FaultPicker = (faults: readonly ApiFaultSettings[], method: string, route: string | undefined) => ApiFaultSettings | null;

/**
 * The first in the list for the call's endpoint, has some of its `times` left, and is drawn by its `share`.
 * With both `times` and `share` it is drawn until it has struck so many times.
 */
export function createFaultPicker(random: Random): FaultPicker {
  const struck = new WeakMap<ApiFaultSettings, number>();
  return (faults, method, route) => {
    for (const fault of faults) {
      const times = struck.get(fault) ?? 0;
      if (times >= (fault.times ?? Number.POSITIVE_INFINITY)) continue;
      if (fault.endpoint !== undefined && (route === undefined || !isEndpoint(fault.endpoint, method, route))) continue;
      if (!random.chance(fault.share)) continue;
      struck.set(fault, times + 1);
      return fault;
    }
    return null;
  };
}

/** `GET /messages/{id}`, as the document writes it, against Fastify's `/api/v1/messages/:id`; names of parameters do not matter. */
function isEndpoint(endpoint: string, method: string, route: string): boolean {
  return endpoint.replace(/\{[^/]*\}/g, ":") === `${method} ${route.slice(apiRoot.length).replace(/:[^/]*/g, ":")}`;
}
