/** How long slow work may keep the writing thread, its commit not counted: what comes in meanwhile waits for it. */
const turnMs = 2;
/** Rows between two looks at the clock. */
const chunkRows = 50;

/**
 * Calls `some` with how many rows it may take, until it takes fewer, `limit` are taken, or the turn is over; gives their
 * sum. How many rows that is depends on the machine, its disk, and what else is going on: so the time is what is fixed.
 */
export function inOneTurn(limit: number, some: (most: number) => number, chunk = chunkRows): number {
  const endAt = performance.now() + turnMs;
  let taken = 0;
  for (;;) {
    const most = Math.min(chunk, limit - taken);
    const took = some(most);
    taken += took;
    if (took < most || taken >= limit || performance.now() >= endAt) return taken;
  }
}
