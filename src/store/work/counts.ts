import type { AttemptResult } from "../../model/delivery.ts";
import type { ReceivedEvent } from "../../model/event.ts";
import {
  bucketOf,
  type GaugeSample,
  gaugeNames,
  hourMs,
  minuteMs,
  minutesKeptMs,
  mostCodes,
  otherCode,
  seriesNames,
} from "../../model/history.ts";
import { countIn, kept } from "../../model/maps.ts";
import type { Disposition } from "../../model/states.ts";
import { literals } from "../schema/ddl.ts";
import { counters, type RowOf } from "../schema/tables.ts";
import {
  add,
  compareTexts,
  removal,
  remove,
  rows,
  type Sums,
  together,
  type Work,
} from "../sql/ops.ts";
import { as, raw, type Sql, select, sql } from "../sql/sql.ts";
import { notePurged } from "./state-rows.ts";

/**
 * The result of an attempt in the history and in groups: `delivered`, a status such as `503`, or a
 * cause such as `timeout`.
 */
export function outcomeOf(result: AttemptResult): string {
  if (result.kind === "failed") return result.error;
  return result.kind === "taken" ? "delivered" : outcomeOfRow(result.status, null);
}

export function outcomeOfRow(status: number | null, error: string | null): string {
  if (error !== null) return error;
  return status === null || (status >= 200 && status < 300) ? "delivered" : String(status);
}

export const minutesPerHour = hourMs / minuteMs;

/** Hours are negative, so that no minute has their place. */
export const atOfHour = (minute: number): number =>
  0 - Math.floor(minute / minutesPerHour) * minutesPerHour;

export function atsOfHour(first: number): number[] {
  return [
    atOfHour(first),
    ...Array.from({ length: minutesPerHour }, (_, minute) => first + minute),
  ];
}

/** `at`: unix minutes, or 0 for a total. `of`: a source or route, or empty. */
interface Counter {
  readonly at: number;
  readonly account: string;
  readonly series: string;
  readonly of: string;
  readonly label: string;
}

interface Counted extends Counter {
  n: number;
}

const counting: Sums = {
  table: counters,
  max: [...gaugeNames, "secretLast"],
  min: ["secretFirst"],
};

export interface Counts {
  add(counter: Counter, n: number): void;
  write(): Work<void>;
}

const counter = as(counters, "c");
const codes = select({ label: counter.label });

/** `writer`: empty where this process is the only one. */
export function createCounting(writer: string) {
  const codesOf = new Map<number, Set<string>>();

  /** Codes are foreign text: beyond `mostCodes` in an hour they count as one. */
  function* nameCodes(failures: readonly Counted[]): Work<void> {
    for (const failure of failures) {
      const hour = Math.floor(failure.at / minutesPerHour);
      let known = codesOf.get(hour);
      if (known === undefined) {
        if (codesOf.size > 2) codesOf.clear();
        const stored = yield* rows(
          codes`FROM counters c WHERE c.at IN ${atsOfHour(hour * minutesPerHour)} AND c.series = 'failures'`,
        );
        known = new Set(stored.map(({ label }) => label));
        codesOf.set(hour, known);
      }
      if (known.has(failure.label)) continue;
      if (known.size < mostCodes) known.add(failure.label);
      else Object.assign(failure, { label: otherCode });
    }
  }

  return {
    begin(): Counts {
      const list: Counted[] = [];
      // A key of all five would be a new text for each count.
      const byAt: Level<Level<Level<Level<Level<Counted>>>>> = new Map();
      return {
        add(counter, n) {
          const byLabel = under(
            under(under(under(byAt, counter.at), counter.account), counter.series),
            counter.of,
          );
          const known = byLabel.get(counter.label);
          if (known === undefined) {
            const counted = { ...counter, n };
            list.push(counted);
            byLabel.set(counter.label, counted);
          } else if (counter.series === "secretLast") known.n = Math.max(known.n, n);
          else if (counter.series === "secretFirst") known.n = Math.min(known.n, n);
          else known.n += n;
        },
        *write() {
          yield* nameCodes(list.filter(({ series }) => series === "failures"));
          if (list.length > 0)
            yield add(
              counting,
              merged(list).map((counter) => ({ ...counter, writer })),
            );
        },
      };
    },
  };
}

/** Events that the relay made have no signature. */
export function countSecret(
  counts: Counts,
  {
    account,
    source,
    secret,
    receivedAt,
  }: Pick<ReceivedEvent, "account" | "source" | "secret" | "receivedAt">,
  series: "secret" | "secretRepeats",
): void {
  if (secret === null) return;
  const use = { at: 0, account, of: source, label: secret };
  counts.add({ ...use, series }, 1);
  counts.add({ ...use, series: "secretLast" }, receivedAt);
  counts.add({ ...use, series: "secretFirst" }, receivedAt);
}

/** It counts in the minute of receipt. */
export function countMoved(
  counts: Counts,
  {
    account,
    source,
    received_at,
  }: { readonly account: string; readonly source: string; readonly received_at: number },
  from: Disposition,
  to: Disposition,
): void {
  if (from === to) return;
  const counter = { at: Math.floor(received_at / minuteMs), account, series: "events", of: source };
  counts.add({ ...counter, label: from }, -1);
  counts.add({ ...counter, label: to }, 1);
}

type Level<T> = Map<string | number, T>;

const nothing = () => new Map<never, never>();
const under = <K, V, L>(level: Map<L, Map<K, V>>, key: L): Map<K, V> =>
  kept(level, key, nothing as () => Map<K, V>);

/** Two batches do not wait for each other in this order. Codes that became one are one row. */
function merged(list: readonly Counted[]): Counted[] {
  const result: Counted[] = [];
  for (const next of list.toSorted(byKey)) {
    const last = result.at(-1);
    if (last?.series === "failures" && byKey(last, next) === 0) last.n += next.n;
    else result.push(next);
  }
  return result;
}

function byKey(a: Counter, b: Counter): number {
  return (
    a.at - b.at ||
    compareTexts(a.series, b.series) ||
    compareTexts(a.of, b.of) ||
    compareTexts(a.account, b.account) ||
    compareTexts(a.label, b.label)
  );
}

type CounterRow = RowOf<typeof counters>;

export type Acknowledged = Map<number, Map<number, number>>;

const acknowledgedEveryMs = 1_000;

/** No other row is written with an acknowledgement. A write that fails loses none. */
export function createAcknowledgements(write: (acknowledged: Acknowledged) => Promise<unknown>) {
  let gathered: Acknowledged = new Map();
  let timer: NodeJS.Timeout | null = null;

  function note(minute: number, bucket: number, n: number): void {
    countIn(under(gathered, minute), bucket, n);
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
      for (const [minute, buckets] of written)
        for (const [bucket, n] of buckets) note(minute, bucket, n);
    }
  }

  return {
    note(tookMs: number, at: number): void {
      note(Math.floor(at / minuteMs), bucketOf(tookMs), 1);
      timer ??= setTimeout(() => void flush(), acknowledgedEveryMs).unref();
    },
    flush,
  };
}

export function countAcknowledged(counts: Counts, acknowledged: Acknowledged): void {
  for (const [at, buckets] of acknowledged) {
    for (const [bucket, n] of buckets)
      counts.add({ at, account: "", series: "ack", of: "", label: String(bucket) }, n);
  }
}

/** The latest sample of a minute replaces the others. */
export function* sampleGauges(values: GaugeSample, at: number, writer: string): Work<void> {
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
const isOfHistory = raw(`c.series IN (${literals(seriesNames)})`);
const inOrder = sql`ORDER BY c.at, c.series, c."of", c.account, c.label, c.writer`;
/** A late count waits for these rows, or is in them. */
const locked = raw("", "FOR UPDATE");
const ended = removal(counters, { isLocked: true });

const taken = (range: Sql, limit: number): Work<readonly CounterRow[]> =>
  rows(
    whole`FROM counters c WHERE ${range} AND ${isOfHistory} ${inOrder} LIMIT ${limit} ${locked}`,
  );

/** One row for the counts of all processes. Returns how many rows of minutes it took. */
export function* rollUp(now: number, limit: number): Work<number> {
  const before = Math.floor((now - minutesKeptMs) / minuteMs);
  const minutes = yield* taken(sql`c.at > 0 AND c.at < ${before}`, limit);
  const hours = [
    ...Map.groupBy(minutes, ({ at, account, series, of, label }) =>
      JSON.stringify([atOfHour(at), account, series, of, label]),
    ).values(),
  ]
    .map(hourOf)
    .sort(byKey);
  yield* together([add(counting, hours), remove(ended, minutes)]);
  return minutes.length;
}

const gauges: ReadonlySet<string> = new Set(gaugeNames);

function hourOf(minutes: readonly CounterRow[]): CounterRow {
  const [first] = minutes as [CounterRow, ...CounterRow[]];
  const counts = minutes.map(({ n }) => n);
  const n = gauges.has(first.series)
    ? Math.max(...counts)
    : counts.reduce((sum, count) => sum + count, 0);
  return { ...first, at: atOfHour(first.at), writer: "", n };
}

export function* purgeHours(now: number, keep: number, limit: number): Work<number> {
  const before =
    Math.floor((now - Math.max(keep, minutesKeptMs + hourMs)) / hourMs) * minutesPerHour;
  const hours = yield* taken(sql`c.at < 0 AND c.at > ${0 - before}`, limit);
  if (hours.length === 0) return 0;
  yield* notePurged("history", before * minuteMs);
  yield remove(ended, hours);
  return hours.length;
}
