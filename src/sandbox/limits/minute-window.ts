export const minuteMs = 60_000;

/** Counts in one-minute windows. Times are unix milliseconds. */
export interface MinuteWindow {
  /** Counted in the window that is open at `now`; 0 when none is. */
  count(now: number): number;
  /** Counts one; opens a window when none is open. */
  add(now: number): void;
  /** Whole seconds until the open window ends, at least 1. */
  secondsLeft(now: number): number;
}

/**
 * A window opens with the first call after the last one ended, and lasts exactly a minute. The sandbox's choice: the
 * document says only "one-minute windows". Windows on the clock's minutes would forgive a client that counts by its own
 * clock's minutes, which no client may rely on, and would make a test that goes one beyond a cap depend on the second at
 * which it starts.
 */
export function createMinuteWindow(): MinuteWindow {
  let openedAt = Number.NEGATIVE_INFINITY;
  let counted = 0;
  // A machine's clock may be set back: a window of the future is none.
  const isOpen = (now: number) => now >= openedAt && now < openedAt + minuteMs;
  return {
    count: (now) => (isOpen(now) ? counted : 0),
    add(now) {
      if (!isOpen(now)) {
        openedAt = now;
        counted = 0;
      }
      counted += 1;
    },
    secondsLeft: (now) => (isOpen(now) ? Math.max(1, Math.ceil((openedAt + minuteMs - now) / 1_000)) : 1),
  };
}
