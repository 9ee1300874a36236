import type { Clock } from "../../model/clock.ts";

const byTimer: Clock["after"] = (ms, run) => {
  const timer = setTimeout(run, ms);
  return () => clearTimeout(timer);
};

/** Poll interval for events of other processes; one GET each. */
const lookEveryMs = 200;

/**
 * Wakes listeners: at once for events of this process, and by polling the last seq for events of others. It polls only
 * while there are listeners, and continues while Redis is unavailable.
 */
export function createNews(last: () => Promise<number>, after: Clock["after"] = byTimer) {
  const waiting = new Set<() => void>();
  let known = 0;
  let cancel = (): void => {};
  let isLooking = false;
  let isNotified = true;

  /** Notifies once per turn of the event loop. */
  function notifySoon(): void {
    if (!isNotified || waiting.size === 0) return;
    isNotified = false;
    setImmediate(() => {
      isNotified = true;
      for (const wake of [...waiting]) wake();
    });
  }

  async function look(): Promise<void> {
    try {
      const found = await last();
      const isNew = found !== known;
      known = found;
      if (isNew) notifySoon();
    } catch {
      // The connection reports that Redis is unavailable.
    } finally {
      isLooking = waiting.size > 0;
      if (isLooking) cancel = after(lookEveryMs, () => void look());
    }
  }

  return {
    /** This process stored events, the last one with this seq. */
    stored(seq: number): void {
      // Older seqs were notified already.
      if (seq <= known) return;
      known = seq;
      notifySoon();
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
