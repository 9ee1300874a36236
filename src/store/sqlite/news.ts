import type { DueListener } from "../port.ts";
import type { DueDelivery } from "../rules.ts";

/** What the parts of this process tell each other about the store. */
export function createNews() {
  const dueListeners = new Set<DueListener>();
  const waiting = new Set<() => void>();
  let newest = 0;
  return {
    announce(due: readonly DueDelivery[]): void {
      for (const listener of dueListeners) listener.offer(due);
    },
    /** Another change to the deliveries of a route. */
    wake(route: string): void {
      for (const listener of dueListeners) listener.wake(route);
    },
    onDue(listener: DueListener): () => void {
      dueListeners.add(listener);
      return () => void dueListeners.delete(listener);
    },
    /** A transaction is committed. `seq`: of the last event, if it is known. */
    stored(seq: number | null): void {
      if (seq === null || seq <= newest) return;
      newest = seq;
      for (const wake of waiting) wake();
    },
    onStored(wake: () => void): () => void {
      waiting.add(wake);
      return () => void waiting.delete(wake);
    },
  };
}
