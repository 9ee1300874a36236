import type { Clock } from "../../model/clock.ts";

/** How often the pace looks at the clock: one timer for all who wait, whatever the rate. */
const tickMs = 5;

/**
 * Lets `rate` per second through, evenly over each few milliseconds, and does not make up for time in
 * when nothing was requested (no burst after a stall longer than `burstMs`). Resolves at once while within the rate.
 */
export function createPace(rate: number, clock: Clock, burstMs = 100): () => Promise<void> | undefined {
  let due = clock.now();
  let tick: Promise<void> | null = null;
  const nextTick = () => {
    tick ??= new Promise<void>((resolve) =>
      clock.after(tickMs, () => {
        tick = null;
        resolve();
      }),
    );
    return tick;
  };
  const pass = (): boolean => {
    const now = clock.now();
    if (due > now) return false;
    due = Math.max(due, now - burstMs) + 1000 / rate;
    return true;
  };
  const wait = async () => {
    do await nextTick();
    while (!pass());
  };
  return () => (pass() ? undefined : wait());
}
