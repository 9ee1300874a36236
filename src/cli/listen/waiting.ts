import type { Clock } from "../../event/clock.ts";

/** Time is looked at this often, because timers stand still while a laptop sleeps, and the wall clock does not. */
const tickMs = 1_000;

/**
 * Time that has passed since `clock.now()` was `before`, when a timer of `least` ms has run out: more after sleep, and not
 * less when somebody set the clock back.
 */
function passed(clock: Clock, before: number, least: number): number {
  return Math.max(least, clock.now() - before);
}

/** Waits until so much time has passed, awake or asleep, or until the signal is aborted. Never rejects. */
export function waitFor(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    let cancel = (): void => {};
    const end = (): void => {
      cancel();
      signal.removeEventListener("abort", end);
      resolve();
    };
    const tick = (left: number): void => {
      if (left <= 0 || signal.aborted) {
        end();
        return;
      }
      const step = Math.min(tickMs, left);
      const before = clock.now();
      cancel = clock.after(step, () => tick(left - passed(clock, before, step)));
    };
    signal.addEventListener("abort", end);
    tick(ms);
  });
}

interface Watchdog {
  /** Something was heard: it counts from 0. */
  heard(): void;
  /** Nobody listens for a while, so silence means nothing. */
  rest(): void;
  end(): void;
}

/** Calls `silent` once when nothing was heard for `limitMs`, asleep or awake. */
export function startWatchdog(clock: Clock, limitMs: number, silent: () => void): Watchdog {
  let silence: number | null = 0;
  let cancel = (): void => {};
  const tick = (): void => {
    const before = clock.now();
    cancel = clock.after(tickMs, () => {
      if (silence !== null) silence += passed(clock, before, tickMs);
      if (silence !== null && silence >= limitMs) silent();
      else tick();
    });
  };
  tick();
  return {
    heard() {
      silence = 0;
    },
    rest() {
      silence = null;
    },
    end: () => cancel(),
  };
}

/** The pause before try `failures` + 1, in ms: doubled each time up to `longestMs`, of which half is chance. */
export function backoffMs(failures: number, random: () => number, firstMs = 500, longestMs = 30_000): number {
  const full = Math.min(longestMs, firstMs * 2 ** Math.min(failures, 20));
  return Math.round((full / 2) * (1 + random()));
}
