import type { MaybePromise } from "../model/maybe-promise.ts";
import { StoreUnavailable } from "../store/port.ts";

/**
 * How long a count is reused, in ms. Counting a million rows takes about 15 ms, and a count is
 * reused for a hundred times as long.
 */
const countFresh = { least: 1_000, most: 5_000, times: 100 };

/**
 * Counts at most once in a while. While the store is unavailable, the last count is reused, at
 * first `initial`.
 */
export function createCount<T>(
  now: () => number,
  read: () => MaybePromise<T>,
  initial?: T,
  fresh = countFresh,
): () => Promise<T> {
  let until = Number.NEGATIVE_INFINITY;
  let countedAt = 0;
  let last = initial;
  let counting: Promise<T> | null = null;

  async function count(): Promise<T> {
    const startedAt = performance.now();
    last = last === undefined ? await read() : await answerOr(read, last);
    const tookMs = performance.now() - startedAt;
    countedAt = now();
    until = countedAt + Math.min(fresh.most, Math.max(fresh.least, fresh.times * tookMs));
    return last;
  }

  return async () => {
    const at = now();
    // Also when the clock was set back.
    if (last !== undefined && at < until && at >= countedAt) return last;
    counting ??= count().finally(() => {
      counting = null;
    });
    return counting;
  };
}

/** While the store is unavailable, the last answer: a scrape reads other gauges too. */
export async function answerOr<T>(read: () => MaybePromise<T>, last: T): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof StoreUnavailable) return last;
    throw error;
  }
}

const lookEveryMs = 250;

/**
 * Rejects soon after the store has failed: a server that hangs answers a long read after half a
 * minute, and meanwhile nobody would learn that events cannot be stored.
 */
export async function untilFailed<T>(
  reading: MaybePromise<T>,
  failure: () => object | null,
): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setInterval(() => {
    if (failure() !== null) reject(new StoreUnavailable("the store does not answer"));
  }, lookEveryMs);
  try {
    return await Promise.race([reading, promise]);
  } finally {
    clearInterval(timer);
  }
}
