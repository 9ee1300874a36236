import { setImmediate as nextTurn } from "node:timers/promises";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { SeqBounds } from "../store/port.ts";

interface WalkBack<T> {
  /** Exclusive. */
  readonly before?: number | undefined;
  readonly limit: number;
  readonly bounds: () => MaybePromise<SeqBounds>;
  /** Up to `limit` rows of the seqs between, newest first. */
  readonly read: (after: number, before: number, limit: number) => MaybePromise<readonly T[]>;
  /** True when nothing older than these seqs can match. */
  readonly isPast?: (after: number, before: number) => MaybePromise<boolean>;
  /**
   * An index has the matching rows, so that a window of a million seqs is as fast as a small one.
   */
  readonly isIndexed?: boolean;
  /** The rows are read outside of the thread that receives. */
  readonly isAside?: boolean | undefined;
  /** A walk that is not over after this returns where to continue. */
  readonly longestMs?: number | undefined;
}

/**
 * What a walk found. Everything down to the seq `reached` was searched, or more rows than `limit`
 * were found; null: nothing older exists.
 */
export interface Walked<T> {
  readonly found: T[];
  readonly reached: number | null;
}

/** A page of what an index finds at once. One row more shows whether there is another page. */
export async function readIndexed<
  Filter extends { readonly limit: number },
  T extends { readonly seq: number },
>(list: (filter: Filter) => MaybePromise<readonly T[]>, filter: Filter): Promise<Walked<T>> {
  const { limit } = filter;
  const rows = await list({ ...filter, limit: limit + 1 });
  const found = rows.slice(0, limit);
  return { found, reached: rows.length > limit ? (found.at(-1)?.seq ?? 0) : null };
}

/**
 * Seqs in one window. Without an index, reading the largest blocks the thread for a few
 * milliseconds.
 */
const windows = {
  indexed: { smallest: 5_000, first: 20_000, largest: 1_000_000 },
  aside: { smallest: 5_000, first: 20_000, largest: 200_000 },
  others: { smallest: 500, first: 5_000, largest: 10_000 },
};
/**
 * A window grows after one that took less than `short`, and shrinks after one that took `long`,
 * when the rows were not in memory.
 */
const windowMs = { here: { short: 2, long: 10 }, aside: { short: 20, long: 100 } } as const;

/**
 * Reads a list without blocking the thread for longer than one window, however rare the matches.
 */
export async function walkBack<T>(walk: WalkBack<T>): Promise<Walked<T>> {
  const {
    before: from = Number.MAX_SAFE_INTEGER,
    limit,
    bounds,
    read,
    isPast,
    isIndexed = false,
    isAside = false,
    longestMs = 2_000,
  } = walk;
  const { smallest, first, largest } =
    windows[isIndexed ? "indexed" : isAside ? "aside" : "others"];
  const { short, long } = windowMs[isAside ? "aside" : "here"];
  const ends = await bounds();
  if (ends === null) return { found: [], reached: null };
  const startedAt = performance.now();
  const found: T[] = [];
  let size = first;
  let before = Math.min(from, ends.newest + 1);
  while (before > ends.oldest) {
    const after = Math.max(before - size - 1, ends.oldest - 1);
    const windowAt = performance.now();
    found.push(...(await read(after, before, limit + 1 - found.length)));
    if (found.length > limit) return { found: found.slice(0, limit), reached: before };
    if ((await isPast?.(after, before)) === true) return { found, reached: null };
    before = after + 1;
    const now = performance.now();
    if (found.length === limit || now - startedAt > longestMs)
      return { found, reached: before > ends.oldest ? before : null };
    if (now - windowAt < short) size = Math.min(4 * size, largest);
    else if (now - windowAt > long) size = Math.max(Math.ceil(size / 4), smallest);
    await nextTurn();
  }
  return { found, reached: null };
}

/**
 * Rows of several walks without duplicates, newest first, down to the seq that every walk has
 * searched.
 */
export function mergeWalks<T extends { readonly seq: number }>(
  walks: readonly Walked<T>[],
  limit: number,
): { found: T[]; next: number | null } {
  const floors = walks.map(({ found, reached }) =>
    reached !== null && found.length >= limit ? (found.at(-1)?.seq ?? 0) : (reached ?? 0),
  );
  const floor = Math.max(0, ...floors);
  const bySeq = new Map(
    walks.flatMap(({ found }) =>
      found.filter(({ seq }) => seq >= floor).map((row) => [row.seq, row] as const),
    ),
  );
  const found = [...bySeq.values()].sort((a, b) => b.seq - a.seq);
  const page = found.slice(0, limit);
  const isMore = page.length < found.length || (page.length >= limit && floor > 0);
  return { found: page, next: isMore ? (page.at(-1)?.seq ?? floor) : floor > 0 ? floor : null };
}
