/** Time as the relay sees it; tests pass one of their own, so that a ten-hour backoff takes a millisecond. */
export interface Clock {
  /** Unix milliseconds. */
  now(): number;
  /** Calls `run` once, `ms` from now; the returned function takes it back. */
  after(ms: number, run: () => void): () => void;
}

/** Waits `ms` by the clock; rejects with the signal's reason when that is aborted first. */
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
