import type { AuditFilter } from "../../../event/audit-report.ts";
import type { Db } from "../open.ts";

/** Events are stored in the order received, but for clocks that were set; this much is allowed for them. */
const clockSlackMs = 3_600_000;

export interface SeqRange {
  /** Exclusive and inclusive: nothing outside of it can be meant. */
  readonly after: number;
  readonly last: number;
  /** The greatest number of all, 0 when there are no events. */
  readonly newest: number;
}

/** The events that a filter's times can mean, found by halving. For inside a transaction. */
export function seqRange(db: Db, { from, to }: AuditFilter): SeqRange {
  const newest = db.prepare<[], number | null>("SELECT max(seq) FROM events").pluck().get() ?? 0;
  const receivedUpTo = db.prepare<[number], number>("SELECT received_at FROM events WHERE seq <= ? ORDER BY seq DESC LIMIT 1").pluck();

  /** The greatest number up to which everything was received before `at`. */
  function before(at: number): number {
    let [low, high] = [0, newest];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if ((receivedUpTo.get(middle) ?? Number.NEGATIVE_INFINITY) < at) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  return {
    after: from === undefined ? 0 : before(from - clockSlackMs),
    last: to === undefined ? newest : before(to + clockSlackMs),
    newest,
  };
}
