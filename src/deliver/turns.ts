/** Returns how many attempts it began, at most `mostPerLook`. */
type Look = () => number;

/**
 * Looks and attempts, a few milliseconds of work: the attempts of hundreds of routes would keep requests waiting for a second.
 * A busy turn also delays connections, of which Node accepts one per turn.
 */
const mostPerTurn = 16;
/** A lane does not load more at once. */
export const mostPerLook = 64;

const waiting = new Set<Look>();
let isScheduled = false;

/** Once, in one of the next turns of the event loop, which all lanes share: first come, first served. */
export function runInTurn(look: Look): void {
  waiting.add(look);
  if (!isScheduled) setImmediate(runTurn);
  isScheduled = true;
}

function runTurn(): void {
  let left = mostPerTurn;
  // Those that come meanwhile have a later turn.
  for (const look of [...waiting].slice(0, mostPerTurn)) {
    if (left <= 0) break;
    waiting.delete(look);
    left -= 1 + look();
  }
  isScheduled = waiting.size > 0;
  if (isScheduled) setImmediate(runTurn);
}
