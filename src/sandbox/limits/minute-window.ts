const minuteMs = 60_000;

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
 * clock's minutes, which no client may rely on.
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

/** What arrived in a sliding minute: (now − 60 s, now]. Exact to the millisecond, wherever windows of a cap begin. */
export interface BusiestMinute {
  add(now: number): void;
  /** In the last minute. */
  last(now: number): number;
  /** In the busiest minute so far. */
  peak(): number;
}

export function createBusiestMinute(): BusiestMinute {
  /** Oldest first, from `first` on. */
  let times: number[] = [];
  let first = 0;
  let newest = Number.NEGATIVE_INFINITY;
  let peak = 0;
  /** Times must not fall, or the oldest would not be first. */
  const forward = (now: number): number => {
    newest = Math.max(newest, now);
    while (first < times.length && (times[first] as number) <= newest - minuteMs) first += 1;
    if (first > times.length / 2) {
      times = times.slice(first);
      first = 0;
    }
    return newest;
  };
  return {
    add(now) {
      const at = forward(now);
      times.push(at);
      peak = Math.max(peak, times.length - first);
    },
    last(now) {
      forward(now);
      return times.length - first;
    },
    peak: () => peak,
  };
}

/** "More than 20 requests per minute from one IP address with invalid keys blocks that IP for one minute." */
const mostBadKeys = 20;

export interface BadKeys {
  isBlocked(address: string, now: number): boolean;
  /** Notes a request without a valid key. True when it is the one too many: from it on the address is blocked. */
  add(address: string, now: number): boolean;
  forget(): void;
}

/**
 * The sandbox's choice: the minute slides, so that no 21 bad calls within 60 s get through wherever they begin; requests
 * without a key count as those with a wrong one do; what comes during the block is not counted, and does not prolong it.
 */
export function createBadKeys(): BadKeys {
  const times = new Map<string, number[]>();
  const blockedUntil = new Map<string, number>();
  return {
    isBlocked: (address, now) => (blockedUntil.get(address) ?? 0) > now,
    add(address, now) {
      const recent = (times.get(address) ?? []).filter((at) => at > now - minuteMs);
      recent.push(now);
      if (recent.length <= mostBadKeys) {
        times.set(address, recent);
        return false;
      }
      times.delete(address);
      blockedUntil.set(address, now + minuteMs);
      return true;
    },
    forget() {
      times.clear();
      blockedUntil.clear();
    },
  };
}
