/** By how much numbers are advanced when a PostgreSQL server may have lost some: more than it can have given. */
export const seqLeap = 1_000_000_000;

/** How many events there are at most with a seq above `after` and up to `to`. */
export const seqsBetween = (after: number, to: number): number => Math.max(0, to - after) % seqLeap;
