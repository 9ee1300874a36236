import type { DueDelivery, DueListener } from "./port.ts";

export function createListeners() {
  const ofDue = new Set<DueListener>();
  const ofStored = new Set<() => void>();
  return {
    offer(due: readonly DueDelivery[]): void {
      for (const listener of ofDue) listener.offer(due);
    },
    wake(route: string): void {
      for (const listener of ofDue) listener.wake(route);
    },
    wakeStored(): void {
      for (const wake of [...ofStored]) wake();
    },
    onDue(listener: DueListener): () => void {
      ofDue.add(listener);
      return () => void ofDue.delete(listener);
    },
    onStored(wake: () => void): () => void {
      ofStored.add(wake);
      return () => void ofStored.delete(wake);
    },
    clear(): void {
      ofDue.clear();
      ofStored.clear();
    },
  };
}
