/** Time as the relay sees it; tests pass one of their own, so that a ten-hour backoff takes a millisecond. */
export interface Clock {
  /** Unix milliseconds. */
  now(): number;
  /** Calls `run` once, `ms` from now; the returned function takes it back. */
  after(ms: number, run: () => void): () => void;
}

/** Resolves after `ms`; rejects with the signal's reason if that is aborted first. */
export function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const stop = () => {
      cancel();
      reject(signal.reason);
    };
    const cancel = clock.after(ms, () => {
      signal.removeEventListener("abort", stop);
      resolve();
    });
    signal.addEventListener("abort", stop, { once: true });
  });
}

/** Milliseconds since its creation. Never goes back, even if somebody sets the wall clock. */
export interface SteadyTime {
  now(): number;
  /** Unix ms of a steady time, by the present wall clock. */
  toUnix(at: number): number;
}

/**
 * When the wall clock is set back, steady time continues from where it was; otherwise the limiter would hold slots for too
 * long. When it is set forward, the jump counts as elapsed: that is true after sleep, and costs one 429 at worst otherwise.
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
