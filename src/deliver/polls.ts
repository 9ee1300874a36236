import type { Clock } from "../model/clock.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";

/** A report of a shared store that was lost costs this time. */
export const pollMs = 500;
/** Rows of a shared store become visible so long after their time. */
export const lateMs = 5_000;
const pollsPerWholeLook = 20;

export interface PollStore {
  /** When the first one of each route is due, of those due at `from` or later (unix ms). */
  nextDue(routes: readonly string[], from: number): MaybePromise<Map<string, number | null>>;
}

interface PolledQueue {
  readonly route: string;
  /** False: it is busy, and looks at the store itself. */
  poll(from: number): boolean;
  /** Null: none waits. */
  answered(dueAt: number | null): void;
  failed(error: unknown): void;
}

export type Polls = ReturnType<typeof createPolls>;

/** A process may have hundreds of idle queues: it looks at a shared store once for all of them. */
export function createPolls(store: PollStore, clock: Clock) {
  const queues = new Set<PolledQueue>();
  let polls = 0;
  /** Idle queues know of what was stored before, until `lateMs` earlier. */
  let lookedAt = clock.now();
  let isLooking = false;
  let cancel = (): void => {};

  function poll(): void {
    cancel = clock.after(pollMs, poll);
    polls += 1;
    const now = clock.now();
    const from = (at: number): number => (polls % pollsPerWholeLook === 0 ? 0 : at - lateMs);
    const idle = [...queues].filter((queue) => queue.poll(from(now)));
    if (idle.length === 0) lookedAt = now;
    else if (!isLooking) void look(idle, from(Math.min(now, lookedAt)), now);
  }

  async function look(idle: readonly PolledQueue[], from: number, now: number): Promise<void> {
    isLooking = true;
    try {
      const due = await store.nextDue([...new Set(idle.map(({ route }) => route))], from);
      for (const queue of idle) queue.answered(due.get(queue.route) ?? null);
      lookedAt = now;
    } catch (error) {
      // Reported once, not for each of them.
      const [any] = queues;
      any?.failed(error);
    }
    isLooking = false;
  }

  return {
    /** Returns the function that removes it. */
    add(queue: PolledQueue): () => void {
      if (queues.size === 0) cancel = clock.after(pollMs, poll);
      queues.add(queue);
      return () => {
        queues.delete(queue);
        if (queues.size === 0) cancel();
      };
    },
  };
}
