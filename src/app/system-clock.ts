import type { Clock } from "../event/clock.ts";

/** Longest wait that setTimeout keeps; a longer one would fire at once. */
const maxTimeout = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: Date.now,
  after(ms, run) {
    const timer = setTimeout(run, Math.min(ms, maxTimeout));
    return () => clearTimeout(timer);
  },
};
