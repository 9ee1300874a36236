import type { SeqBounds } from "../port.ts";
import { events } from "../schema/tables.ts";
import { first, rows, type Work } from "../sql/ops.ts";
import { allOf, as, raw, type Sql, select, sql } from "../sql/sql.ts";

/** Exclusive. */
export const isBetween = (seq: Sql, after: number, before: number): Sql =>
  sql`${seq} > ${after} AND ${seq} < ${before}`;

/** All that begin with a text are one range of its bytes. */
export const beginsWith = (column: Sql, prefix: string): Sql =>
  sql`${column} >= ${prefix} AND ${column} < ${`${prefix}\u{10FFFF}`}`;

/** The seqs of the rows `x` that `from` selects. */
export function* seqsFrom(from: Sql): Work<number[]> {
  return (yield* rows(sql<{ readonly seq: number }>`SELECT x.seq AS seq FROM ${from}`)).map(
    ({ seq }) => seq,
  );
}

export function* boundsOf(table: "events" | "subjects"): Work<SeqBounds> {
  const ends = yield* first(
    sql<{
      readonly [K in keyof NonNullable<SeqBounds>]: number | null;
    }>`SELECT (SELECT min(seq) FROM ${raw(table)}) AS oldest,
      (SELECT max(seq) FROM ${raw(table)}) AS newest`,
  );
  return ends === null || ends.oldest === null || ends.newest === null
    ? null
    : { oldest: ends.oldest, newest: ends.newest };
}

const leastRead = 100;

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

export type Conditions<Filter> = {
  readonly [Key in keyof Filter]-?: (value: Exclude<Filter[Key], undefined>) => Sql;
};

export function conditionsOf<Filter extends object>(
  conditions: Conditions<Filter>,
  filter: Filter,
): Sql | undefined {
  const all = Object.entries(conditions) as [keyof Filter, (value: unknown) => Sql][];
  const given = all.flatMap(([name, condition]) =>
    filter[name] === undefined ? [] : [condition(filter[name])],
  );
  return given.length === 0 ? undefined : allOf(...given);
}

/** Clocks may be set, or differ. */
const clockSlackMs = 3_600_000;

export interface SeqRange {
  readonly after: number;
  readonly last: number;
}

const e = as(events, "e");
const upTo = (seq: number) =>
  first(
    select({ at: e.received_at })`FROM events e WHERE e.seq <= ${seq} ORDER BY e.seq DESC LIMIT 1`,
  );

export function* seqRange(from: number, to: number): Work<SeqRange> {
  const ends = yield* boundsOf("events");
  if (ends === null) return { after: 0, last: 0 };
  const bounds = { low: ends.oldest - 1, high: ends.newest };
  return {
    after: yield* before(from - clockSlackMs, bounds),
    last: yield* before(to + clockSlackMs, bounds),
  };
}

function* before(at: number, { low, high }: { low: number; high: number }): Work<number> {
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (((yield* upTo(middle))?.at ?? Number.NEGATIVE_INFINITY) < at) low = middle;
    else high = middle - 1;
  }
  return low;
}
