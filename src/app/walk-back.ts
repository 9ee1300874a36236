import { setImmediate as nextTurn } from "node:timers/promises";
import type { MaybePromise } from "../model/maybe-promise.ts";

/** How a list is read: newest first, a window of event seqs at a time. */
export interface WalkBack<T> {
  /** Exclusive; null: from the newest on. */
  readonly before: number | null;
  readonly limit: number;
  readonly bounds: () => MaybePromise<{ readonly oldest: number; readonly newest: number } | null>;
  /** Up to `limit` rows of the seqs between, newest first. */
  readonly read: (after: number, before: number, limit: number) => MaybePromise<readonly T[]>;
  /** True when nothing older than these seqs can match. */
  readonly isPast?: (after: number, before: number) => MaybePromise<boolean>;
}

/** Seqs in one window: a few milliseconds of the thread that also receives. */
const windowSeqs = 5_000;
/** A list that finds nothing gives up after this, and says where to go on. */
const longestMs = 2_000;

/**
 * Reads a list without ever holding the thread for longer than one window, however rare what it looks
 * for. `reached` is the seq down to which everything was looked at; null when there is nothing older.
 */
export async function walkBack<T>(walk: WalkBack<T>): Promise<{ found: T[]; reached: number | null }> {
  const bounds = await walk.bounds();
  if (bounds === null) return { found: [], reached: null };
  const startedAt = performance.now();
  const found: T[] = [];
  let before = Math.min(walk.before ?? Number.MAX_SAFE_INTEGER, bounds.newest + 1);
  while (before > bounds.oldest) {
    const after = Math.max(before - windowSeqs - 1, bounds.oldest - 1);
    found.push(...(await walk.read(after, before, walk.limit - found.length)));
    if (found.length >= walk.limit) return { found, reached: before };
    if ((await walk.isPast?.(after, before)) === true) return { found, reached: null };
    before = after + 1;
    if (performance.now() - startedAt > longestMs) return { found, reached: before > bounds.oldest ? before : null };
    await nextTurn();
  }
  return { found, reached: null };
}
