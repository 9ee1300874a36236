/** Returns how many attempts it began, at most `mostPerLook`. */
type Look = () => number;

/**
 * Looks and attempts, a few milliseconds of work: the attempts of hundreds of routes would keep requests waiting for a second.
 * A busy turn also delays connections, of which Node accepts one per turn.
 */
const mostPerTurn = 16;
/** A lane does not load more at once. */
export const mostPerLook = 64;

const waiting: Look[] = [];
let isScheduled = false;

/** In one of the next turns of the event loop, which all lanes share: first come, first served. */
export function runInTurn(look: Look): void {
  waiting.push(look);
  if (!isScheduled) setImmediate(runTurn);
  isScheduled = true;
}

function runTurn(): void {
  // Those that come meanwhile have the next turn.
  const most = Math.min(waiting.length, mostPerTurn);
  for (let done = 0, looks = 0; looks < most && done < mostPerTurn; looks += 1) done += 1 + (waiting.shift() as Look)();
  isScheduled = waiting.length > 0;
  if (isScheduled) setImmediate(runTurn);
}
