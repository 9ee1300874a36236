import type { Clock } from "./clock.ts";

/** Longest wait that setTimeout keeps; a longer one would fire at once. */
const maxTimeout = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: Date.now,
  after(ms, run) {
    // A moment that passed while it was worked out what it is: for less than nothing Node has a warning on stderr.
    const timer = setTimeout(run, Math.max(0, Math.min(ms, maxTimeout)));
    return () => clearTimeout(timer);
  },
};
