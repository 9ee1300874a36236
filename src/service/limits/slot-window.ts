import { createTimeQueue } from "./time-queue.ts";

/** What one count allows: at most `limit` slots held at any time. Times are steady ms (see `steady-time.ts`). */
export interface SlotWindow {
  limit(): number;
  /** More may be held than a smaller limit allows; then nothing is free until enough have come back. */
  setLimit(limit: number): void;
  /** Slots held: by calls under way, and by those that ended less than their time ago. */
  used(now: number): number;
  /** Now or earlier: a slot is free. Later: worth another look then. Infinity: not before a call under way ends. */
  freeAt(now: number): number;
  take(): void;
  /** A call ended; its slot comes back at `at`, which is no earlier than that of any other with the same `isLost`. */
  giveBack(at: number, isLost: boolean): void;
  /** A call ended that was never made; its slot is free at once. */
  undo(): void;
}

export function createSlotWindow(initial: number): SlotWindow {
  let limit = initial;
  let underWay = 0;
  // Two, because calls of unknown outcome come back later than the others: each queue is in order by itself.
  const ended = createTimeQueue();
  const lost = createTimeQueue();

  function used(now: number): number {
    ended.dropUntil(now);
    lost.dropUntil(now);
    return underWay + ended.size() + lost.size();
  }

  return {
    limit: () => limit,
    setLimit(next) {
      limit = next;
    },
    used,
    freeAt: (now) => (used(now) < limit ? now : Math.min(ended.first(), lost.first())),
    take() {
      underWay += 1;
    },
    giveBack(at, isLost) {
      underWay -= 1;
      (isLost ? lost : ended).push(at);
    },
    undo() {
      underWay -= 1;
    },
  };
}
