import type { Clock } from "../../event/clock.ts";

/** Milliseconds since it was made, which never go back, whatever is done to the clock on the wall. */
export interface SteadyTime {
  now(): number;
  /** Unix ms of a steady time, as the wall clock goes now. */
  toUnix(at: number): number;
}

/**
 * A wall clock that is set back would keep slots for as long as it was set back by; here time goes on from where
 * it was. One set forward passes as time gone by: after sleep that is true, and else costs one 429 at worst.
 */
export function createSteadyTime(clock: Clock): SteadyTime {
  let seen = clock.now();
  let steady = 0;

  function now(): number {
    const wall = clock.now();
    steady += Math.max(0, wall - seen);
    seen = wall;
    return steady;
  }

  return { now, toUnix: (at) => at - now() + seen };
}
