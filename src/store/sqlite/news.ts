/** Wakes those who wait for events, once for each transaction that stored some. */
export function createNews() {
  const waiting = new Set<() => void>();
  let isNew = false;
  return {
    /** An event was stored, by the transaction under way. */
    note(): void {
      isNew = true;
    },
    /** That transaction is on the disk. */
    tell(): void {
      if (!isNew) return;
      isNew = false;
      for (const wake of waiting) wake();
    },
    onStored(wake: () => void): () => void {
      waiting.add(wake);
      return () => void waiting.delete(wake);
    },
  };
}
