import { clockSlackMs } from "../audit/rules.ts";
import { events } from "../schema/tables.ts";
import { first, type Work } from "../sql/ops.ts";
import { as, select, sql, typed } from "../sql/sql.ts";

/** Seqs: begin (not included) and end. */
export interface SeqRange {
  readonly after: number;
  readonly last: number;
}

const e = as(events, "e");
const ends = select({
  oldest: typed<number | null>(sql`(SELECT min(seq) FROM events)`),
  newest: typed<number | null>(sql`(SELECT max(seq) FROM events)`),
});
const upTo = (seq: number) => first(select({ at: e.received_at })`FROM events e WHERE e.seq <= ${seq} ORDER BY e.seq DESC LIMIT 1`);

/** The seqs of the events that were received from `from` on and before `to` (unix ms), and of some around them. */
export function* seqRange(from: number, to: number): Work<SeqRange> {
  const { oldest, newest } = (yield* first(ends``)) ?? { oldest: null, newest: null };
  if (oldest === null || newest === null) return { after: 0, last: 0 };
  const bounds = { low: oldest - 1, high: newest };
  return { after: yield* before(from - clockSlackMs, bounds), last: yield* before(to + clockSlackMs, bounds) };
}

/** The greatest seq up to which everything was received before `at`. */
function* before(at: number, { low, high }: { low: number; high: number }): Work<number> {
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (((yield* upTo(middle))?.at ?? Number.NEGATIVE_INFINITY) < at) low = middle;
    else high = middle - 1;
  }
  return low;
}
