import type { Clock } from "../../../../src/model/clock.ts";

/**
 * A clock for tests with real sockets: deadlines (waits of exactly `deadlineMs`) come only when
 * told, all other waits are kept in `waits` and are over at once.
 */
export interface HurriedClock extends Clock {
  readonly waits: number[];
  /** Lets the deadlines of all that is under way come. */
  expire(): void;
  /** Lets the deadline set last come. */
  expireNewest(): void;
  /** How many deadlines are set. */
  deadlines(): number;
  /** From now on other waits do not end by themselves. */
  holdWaits(): void;
}

export function createHurriedClock(
  deadlineMs: number,
  start = Date.UTC(2026, 10, 21, 12),
): HurriedClock {
  let now = start;
  let holds = false;
  const waits: number[] = [];
  const deadlines = new Set<() => void>();
  return {
    waits,
    now: () => now,
    after(ms, run) {
      if (ms === deadlineMs) {
        deadlines.add(run);
        return () => void deadlines.delete(run);
      }
      waits.push(ms);
      if (holds) return () => {};
      const immediate = setImmediate(() => {
        now += ms;
        run();
      });
      return () => clearImmediate(immediate);
    },
    expire() {
      now += deadlineMs;
      for (const run of [...deadlines]) {
        deadlines.delete(run);
        run();
      }
    },
    expireNewest() {
      now += deadlineMs;
      const newest = [...deadlines].at(-1);
      if (newest === undefined) throw new Error("no deadline is set");
      deadlines.delete(newest);
      newest();
    },
    deadlines: () => deadlines.size,
    holdWaits() {
      holds = true;
    },
  };
}
