import { setTimeout as wait } from "node:timers/promises";

/**
 * The longer it takes, and the more a look costs, the less often is looked: what is looked at may
 * be a file, or a process that has work to do meanwhile.
 */
const shortestMs = 10;
const longestMs = 30;
const share = 0.1;
/**
 * A look that waited itself, for an answer that did not come, is no reason to wait as long again.
 */
const longestAfterLookMs = 100;

/**
 * Deadline of a wait, in ms: generous, so that only a hang fails, also on a machine ten times
 * slower.
 */
export const longestWaitMs = 150_000;

/**
 * Waits until `condition` gives something other than false, null or undefined, and gives that.
 * Rejects after `withinMs`, saying what was waited for.
 */
export async function until<T>(
  what: string,
  condition: () => T | Promise<T>,
  withinMs = longestWaitMs,
): Promise<Exclude<Awaited<T>, false | null | undefined>> {
  const began = performance.now();
  const deadline = began + withinMs;
  for (;;) {
    const lookedAt = performance.now();
    const found = await condition();
    if (found !== false && found !== null && found !== undefined)
      return found as Exclude<Awaited<T>, false | null | undefined>;
    const now = performance.now();
    if (now > deadline) throw new Error(`not within ${withinMs} ms: ${what}`);
    const rested = Math.min(longestAfterLookMs, now - lookedAt);
    await wait(Math.max(rested, shortestMs, Math.min(longestMs, share * (now - began))));
  }
}
