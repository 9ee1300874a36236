import type { Clock } from "../event/clock.ts";
import { breakerName } from "./describe-lane.ts";
import type { LineParts } from "./line.ts";
import { createSharedBreaker, type SharedBreaker } from "./shared-breaker.ts";
import { createSharedRate, type SharedRate } from "./shared-rate.ts";

export interface SharedLineParts {
  readonly clock: Clock;
  /** Names this process, and no other. */
  readonly holder: string;
  readonly breakerNamed: (name: string) => SharedBreaker;
  readonly rateNamed: (name: string) => SharedRate;
}

/** A probe is thought dead so long after its attempt must have ended. */
const probeGraceMs = 5000;

/**
 * What lanes of one route share with those of other processes. A breaker goes with the settings of its
 * route; a rate goes with the route alone, because the old settings and the new are in force side by
 * side while processes are restarted.
 */
export function createSharedLine({
  clock,
  holder,
  breakerNamed,
  rateNamed,
}: SharedLineParts): Required<Pick<LineParts, "breakerOf" | "bucketOf">> {
  return {
    breakerOf(settings, changed) {
      const { to } = settings;
      const shared = breakerNamed(breakerName(settings));
      return createSharedBreaker(to.breaker, { shared, clock, holder, probeMs: to.timeout + probeGraceMs, changed });
    },
    bucketOf: (route, perSecond, changed) => createSharedRate(perSecond, rateNamed(route), clock, changed),
  };
}
