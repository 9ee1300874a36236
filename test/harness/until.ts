import { setTimeout as wait } from "node:timers/promises";

/** Waits until `condition` gives something other than false, null or undefined, and gives that. Rejects after `withinMs`, saying what was waited for. */
export async function until<T>(
  what: string,
  condition: () => T | Promise<T>,
  withinMs = 15_000,
): Promise<Exclude<Awaited<T>, false | null | undefined>> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const found = await condition();
    if (found !== false && found !== null && found !== undefined) return found as Exclude<Awaited<T>, false | null | undefined>;
    if (performance.now() > deadline) throw new Error(`not within ${withinMs} ms: ${what}`);
    await wait(10);
  }
}
