import type { Clock } from "../../event/clock.ts";

const byTimer: Clock["after"] = (ms, run) => {
  const timer = setTimeout(run, ms);
  return () => clearTimeout(timer);
};

/** How long after another process stored an event its listeners hear of it, at most; one small question to Redis each time. */
const lookEveryMs = 200;

/**
 * Wakes those who wait for events: at once for what this process stored, and by looking at the last seq for what others
 * did. Nothing is asked while nobody waits. While Redis cannot be asked they are not woken, and looking goes on.
 */
export function createNews(last: () => Promise<number>, after: Clock["after"] = byTimer) {
  const waiting = new Set<() => void>();
  let known = 0;
  let cancel = (): void => {};
  let isLooking = false;
  let isTold = true;

  /** Once for all that one answer of Redis has stored. */
  function tellSoon(): void {
    if (!isTold || waiting.size === 0) return;
    isTold = false;
    setImmediate(() => {
      isTold = true;
      for (const wake of [...waiting]) wake();
    });
  }

  async function look(): Promise<void> {
    try {
      const found = await last();
      const isNew = found !== known;
      known = found;
      if (isNew) tellSoon();
    } catch {
      // It is told elsewhere that Redis is out of reach.
    } finally {
      isLooking = waiting.size > 0;
      if (isLooking) cancel = after(lookEveryMs, () => void look());
    }
  }

  return {
    /** This process has stored events, the last of them under this seq. */
    stored(seq: number): void {
      // Those of others before it are told with it.
      if (seq <= known) return;
      known = seq;
      tellSoon();
    },
    onStored(wake: () => void): () => void {
      waiting.add(wake);
      if (!isLooking) {
        isLooking = true;
        void look();
      }
      return () => void waiting.delete(wake);
    },
    close(): void {
      waiting.clear();
      cancel();
    },
  };
}
