/**
 * Injected, so that tests run a ten-hour backoff in a millisecond. Here and everywhere, a time is
 * in unix ms, and a duration in ms.
 */
export interface Clock {
  now(): number;
  after(ms: number, run: () => void): () => void;
}

/**
 * Longest wait that setTimeout keeps; a longer one would fire at once. Callers that wait longer
 * check again when woken early.
 */
const maxTimeout = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: Date.now,
  after(ms, run) {
    // Clamp: Node warns about negative timeouts.
    const timer = setTimeout(run, Math.max(0, Math.min(ms, maxTimeout)));
    return () => clearTimeout(timer);
  },
};

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

/**
 * Milliseconds that have passed since its creation, or more: monotonic time stands still while the
 * machine sleeps, and wall time may be set ahead.
 */
export function createElapsed(wall: () => number, monotonic: () => number): () => number {
  let seen = { wall: wall(), monotonic: monotonic() };
  let elapsed = 0;
  return () => {
    const now = { wall: wall(), monotonic: monotonic() };
    elapsed += Math.max(0, now.wall - seen.wall, now.monotonic - seen.monotonic);
    seen = now;
    return elapsed;
  };
}

export interface SteadyTime {
  now(): number;
  /** Unix ms of a steady time, by the present wall clock. */
  toUnix(at: number): number;
}

/**
 * When the wall clock is set back, steady time continues, so that the limiter does not hold slots
 * for too long. A jump forward counts as elapsed time: usually the machine slept.
 */
export function createSteadyTime({ now: wall }: Clock): SteadyTime {
  const now = createElapsed(wall, wall);
  return { now, toUnix: (at) => at - now() + wall() };
}

/** `firstMs`, doubled with each further failure in a row (from 1), at most `longestMs`. */
export function growingWait(failures: number, firstMs: number, longestMs: number): number {
  return Math.min(longestMs, firstMs * 2 ** (failures - 1));
}

/**
 * Half to all of a wait, so that callers that failed together do not retry together. `random`: from
 * 0 up to 1.
 */
export function withJitter(waitMs: number, random: number): number {
  return Math.round(waitMs * (0.5 + random / 2));
}

/**
 * The generic cell rate algorithm: `burst` at once, then one every `interval` ms. Times are ms of a
 * clock that does not go back. `isUsedUp`: begins without the burst.
 */
export function createPace(interval: number, burst: number, start = 0, isUsedUp = false) {
  // When the whole burst is available again. Relative to `start`: for large numbers, sums of
  // fractions drift.
  let fullAt = isUsedUp ? burst * interval : 0;
  return {
    /** Now or earlier: the next one may go. Rounding errors must not cost a whole millisecond. */
    readyAt: (): number => start + Math.ceil(fullAt + interval - burst * interval - 1e-6),
    take(now: number): void {
      fullAt = Math.max(fullAt, now - start) + interval;
    },
    /** What went before counts on. */
    change(nextInterval: number, nextBurst: number, now: number): void {
      const taken = Math.max(0, fullAt - (now - start)) / interval;
      [interval, burst] = [nextInterval, nextBurst];
      fullAt = now - start + taken * interval;
    },
  };
}
