import type { Clock } from "./clock.ts";

/** Longest wait that setTimeout keeps; a longer one would fire at once. Callers that wait longer check again when woken early. */
const maxTimeout = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: Date.now,
  after(ms, run) {
    // Clamp: Node warns about negative timeouts.
    const timer = setTimeout(run, Math.max(0, Math.min(ms, maxTimeout)));
    return () => clearTimeout(timer);
  },
};
