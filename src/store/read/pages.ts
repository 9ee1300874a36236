import { first, type Work } from "../sql/ops.ts";
import { raw, type Sql, select, sql, typed } from "../sql/sql.ts";
import type { SeqBounds } from "../views.ts";

/** Exclusive. */
export const isBetween = (seq: Sql, after: number, before: number): Sql => sql`${seq} > ${after} AND ${seq} < ${before}`;

export function* boundsOf(table: "events" | "subjects"): Work<SeqBounds> {
  const [from, min, max] = [raw(table), raw("min(seq)"), raw("max(seq)")];
  const ends =
    yield* first(
      select({
        oldest: typed<number | null>(sql`(SELECT ${min} FROM ${from})`),
        newest: typed<number | null>(sql`(SELECT ${max} FROM ${from})`),
      })``,
    );
  return ends === null || ends.oldest === null || ends.newest === null ? null : { oldest: ends.oldest, newest: ends.newest };
}

/** Fewer rows are not worth a read. */
const leastRead = 100;

/** The next rows of a list, newest first, where `fits` decides what no condition of a statement can. */
export function* readMatching<Row extends { readonly seq: number }>(
  before: number,
  limit: number,
  read: (before: number, most: number) => Work<readonly Row[]>,
  fits?: (row: Row) => boolean,
): Work<readonly Row[]> {
  if (fits === undefined) return yield* read(before, limit);
  const most = Math.max(limit, leastRead);
  const found: Row[] = [];
  for (let end = before; ; ) {
    const more = yield* read(end, most);
    for (const row of more) if (found.length < limit && fits(row)) found.push(row);
    const last = more.at(-1);
    if (last === undefined || more.length < most || found.length >= limit) return found;
    end = last.seq;
  }
}
