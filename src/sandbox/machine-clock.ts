import type { Clock } from "../model/clock.ts";

/** Longest wait that setTimeout keeps; a longer one would fire at once. Who waits longer asks again when woken early. */
const maxTimeout = 2 ** 31 - 1;

/** The machine's own time. */
export const machineClock: Clock = {
  now: Date.now,
  after(ms, run) {
    const timer = setTimeout(run, Math.min(ms, maxTimeout));
    return () => clearTimeout(timer);
  },
};
