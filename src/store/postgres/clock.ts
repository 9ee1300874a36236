import type { Clock } from "../../model/clock.ts";

/**
 * The database's time in this process, for everything that processes compare: the clocks of their hosts differ and may be
 * set. Otherwise a process an hour ahead would end events that another has just parked.
 */
export interface DatabaseClock extends Clock {
  /** Measures the time anew, with one round trip. Do it on every connection and at intervals, because clocks drift. */
  follow(readTime: () => Promise<number>): Promise<void>;
}

/**
 * Uses the time of `machine` until the first answer of the database. From then on it advances with `steady` (ms, monotonic),
 * also while the database is unavailable and when the machine's clock is set.
 */
export function createDatabaseClock(machine: Clock, steady: () => number = () => performance.now()): DatabaseClock {
  /** The database's time when `steady` was 0; null: not known yet. */
  let began: number | null = null;
  return {
    now: () => (began === null ? machine.now() : Math.floor(steady() + began)),
    after: machine.after,
    async follow(readTime) {
      const sentAt = steady();
      const measured = await readTime();
      // The server read its clock at some moment between request and answer. Keeping the known offset within these bounds
      // lets the fastest answers count, and a slow one does not move the time back and forth.
      const least = measured - steady();
      const most = measured - sentAt;
      began = Math.min(most, Math.max(least, began ?? (least + most) / 2));
    },
  };
}
