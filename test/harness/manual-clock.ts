import type { Clock } from "../../src/model/clock.ts";

/** A clock that stands still until told to go on. */
export interface ManualClock extends Clock {
  /** Moves time on by `ms`, calling what falls due on the way, in order. */
  advance(ms: number): Promise<void>;
  pending(): number;
}

/**
 * `rest`: waits, without time passing, until all that goes on has come to rest; what takes real
 * time needs its own.
 */
export function createManualClock(
  start = 1_800_000_000_000,
  rest: () => Promise<void> = settled,
): ManualClock {
  let now = start;
  let timers: { at: number; run: () => void }[] = [];
  return {
    now: () => now,
    after(ms, run) {
      const timer = { at: now + ms, run };
      timers.push(timer);
      return () => {
        timers = timers.filter((other) => other !== timer);
      };
    },
    async advance(ms) {
      const until = now + ms;
      await rest();
      for (;;) {
        const next = timers.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)[0];
        if (next === undefined) break;
        timers = timers.filter((timer) => timer !== next);
        now = Math.max(now, next.at);
        next.run();
        await rest();
      }
      now = until;
      await rest();
    },
    pending: () => timers.length,
  };
}

/**
 * Lets promises and immediates that are already queued run: a few turns of the event loop, no time.
 */
export async function settled(turns = 6): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
}
