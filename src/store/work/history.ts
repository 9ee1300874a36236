import { bucketOf, type GaugeSample, gaugeNames, hourMs, minuteMs, minutesKeptMs, seriesNames } from "../../model/history.ts";
import type { RowOf } from "../schema/table.ts";
import { counters } from "../schema/tables.ts";
import { add, removal, remove, rows, together, type Work } from "../sql/ops.ts";
import { as, raw, type Sql, select, sql } from "../sql/sql.ts";
import { type Counts, counting } from "./counts.ts";
import { atOfHour, minutesPerHour } from "./hours.ts";
import { notePurged } from "./purged.ts";

type Counter = RowOf<typeof counters>;

/** Acknowledgements by unix minute and bucket. */
export type Acknowledged = Map<number, Map<number, number>>;

/** A write of the gathered acknowledgements happens at the latest after this time. */
const acknowledgedEveryMs = 1_000;

/** Gathers acknowledgements in memory, because no other row is written with them. A write that fails loses none. */
export function createAcknowledgements(write: (acknowledged: Acknowledged) => Promise<unknown>) {
  let gathered: Acknowledged = new Map();
  let timer: NodeJS.Timeout | null = null;

  function note(minute: number, bucket: number, n: number): void {
    let buckets = gathered.get(minute);
    if (buckets === undefined) {
      buckets = new Map();
      gathered.set(minute, buckets);
    }
    buckets.set(bucket, (buckets.get(bucket) ?? 0) + n);
  }

  async function flush(): Promise<void> {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    if (gathered.size === 0) return;
    const written = gathered;
    gathered = new Map();
    try {
      await write(written);
    } catch {
      for (const [minute, buckets] of written) for (const [bucket, n] of buckets) note(minute, bucket, n);
    }
  }

  return {
    note(tookMs: number, at: number): void {
      note(Math.floor(at / minuteMs), bucketOf(tookMs), 1);
      timer ??= setTimeout(() => void flush(), acknowledgedEveryMs).unref();
    },
    /** Writes what is gathered. */
    flush,
  };
}

export function countAcknowledged(counts: Counts, acknowledged: Acknowledged): void {
  for (const [at, buckets] of acknowledged) {
    for (const [bucket, n] of buckets) counts.add({ at, account: "", series: "ack", of: "", label: String(bucket) }, n);
  }
}

export interface Sampling {
  readonly values: GaugeSample;
  readonly at: number;
}

/** The latest sample of a minute replaces the others. */
export function* sampleGauges({ values, at }: Sampling, writer: string): Work<void> {
  const minute = Math.floor(at / minuteMs);
  for (const series of ["deadLetters", "oldest"] as const) {
    yield* rows(
      sql`INSERT INTO counters (at, account, series, "of", label, writer, n)
        VALUES (${minute}, ${""}, ${series}, ${""}, ${""}, ${writer}, ${Math.round(values[series])})
        ON CONFLICT (at, series, "of", account, label, writer) DO UPDATE SET n = excluded.n`,
    );
  }
}

const c = as(counters, "c");
const whole = select({
  ...{ at: c.at, account: c.account, series: c.series, of: c.of, label: c.label },
  ...{ writer: c.writer, n: c.n },
});
/** Other series are not of the history. */
const isOfHistory = raw(`c.series IN (${seriesNames.map((name) => `'${name}'`).join(", ")})`);
const inOrder = sql`ORDER BY c.at, c.series, c."of", c.account, c.label, c.writer`;
/** A late count waits for these rows, or is in them. */
const locked = raw("", "FOR UPDATE");
const ended = removal(counters, { isLocked: true });

const taken = (range: Sql, limit: number): Work<readonly Counter[]> =>
  rows(whole`FROM counters c WHERE ${range} AND ${isOfHistory} ${inOrder} LIMIT ${limit} ${locked}`);

/** Adds minutes older than two days to their hours, the counts of all processes in one row. Returns how many rows it took. */
export function* rollUp(now: number, limit: number): Work<number> {
  const before = Math.floor((now - minutesKeptMs) / minuteMs);
  const minutes = yield* taken(sql`c.at > 0 AND c.at < ${before}`, limit);
  const hours = [...Map.groupBy(minutes, hourKey).values()].map(hourOf).sort(byKey);
  yield* together([add(counting, hours), remove(ended, minutes)]);
  return minutes.length;
}

const gauges: ReadonlySet<string> = new Set(gaugeNames);
const hourKey = ({ at, account, series, of, label }: Counter): string => JSON.stringify([atOfHour(at), account, series, of, label]);

/** The row of an hour, from the rows of some of its minutes. */
function hourOf(minutes: readonly Counter[]): Counter {
  const [first] = minutes as [Counter, ...Counter[]];
  const counts = minutes.map(({ n }) => n);
  const n = gauges.has(first.series) ? Math.max(...counts) : counts.reduce((sum, count) => sum + count, 0);
  return { ...first, at: atOfHour(first.at), writer: "", n };
}

function byKey(a: Counter, b: Counter): number {
  return a.at - b.at || compare(a.series, b.series) || compare(a.of, b.of) || compare(a.account, b.account) || compare(a.label, b.label);
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Deletes hours older than `keep` ms. Returns how many rows. */
export function* purgeHours(now: number, keep: number, limit: number): Work<number> {
  // Whole hours, of which none is in minutes.
  const before = Math.floor((now - Math.max(keep, minutesKeptMs + hourMs)) / hourMs) * minutesPerHour;
  const hours = yield* taken(sql`c.at < 0 AND c.at > ${0 - before}`, limit);
  if (hours.length === 0) return 0;
  yield* notePurged("history", before * minuteMs);
  yield remove(ended, hours);
  return hours.length;
}
