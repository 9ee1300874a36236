import { z } from "zod";
import { meaningOf } from "./failure-codes.ts";
import { countIn, kept } from "./maps.ts";
import { isStatus, messageStatuses, supersedes } from "./statuses.ts";
import type { Tracking } from "./tracking.ts";
import { component, foreign, time, type View } from "./view.ts";

/* Counts by minute, written in the transaction that stores what they count. Minutes become hours after two days. */

export const minuteMs = 60_000;
export const hourMs = 3_600_000;
export const minutesKeptMs = 48 * hourMs;
/** Error codes are foreign text: above this number in one hour, others count as `other`. */
export const mostCodes = 200;
export const otherCode = "other";

interface SeriesRule {
  /**
   * `counter`: a sum. `histogram`: its labels are buckets. `gauge`: the last sample of a minute,
   * the greatest of an hour.
   */
  readonly kind: "counter" | "histogram" | "gauge";
  readonly unit: "count" | "ms" | "s";
  readonly of: "source" | "route" | null;
  readonly label: "disposition" | "status" | "code" | "outcome" | null;
}

const historySeries = {
  events: { kind: "counter", unit: "count", of: "source", label: "disposition" },
  transitions: { kind: "counter", unit: "count", of: "source", label: "status" },
  skipped: { kind: "counter", unit: "count", of: "source", label: "status" },
  failures: { kind: "counter", unit: "count", of: null, label: "code" },
  attempts: { kind: "counter", unit: "count", of: "route", label: "outcome" },
  dead: { kind: "counter", unit: "count", of: "route", label: null },
  ack: { kind: "histogram", unit: "ms", of: null, label: null },
  delivery: { kind: "histogram", unit: "ms", of: "route", label: null },
  toDelivered: { kind: "histogram", unit: "s", of: null, label: null },
  toRead: { kind: "histogram", unit: "s", of: null, label: null },
  oldest: { kind: "gauge", unit: "s", of: null, label: null },
  deadLetters: { kind: "gauge", unit: "count", of: null, label: null },
} as const satisfies Readonly<Record<string, SeriesRule>>;
export type SeriesName = keyof typeof historySeries;
export const seriesNames = Object.keys(historySeries) as [SeriesName, ...SeriesName[]];
export const gaugeNames = seriesNames.filter((name) => historySeries[name].kind === "gauge");

/** The gauges that upkeep samples each minute. `oldest` is in seconds. */
export interface GaugeSample {
  readonly oldest: number;
  readonly deadLetters: number;
}

/**
 * Upper bounds grow by the fourth root of two from 1, so a percentile above 1 is at most 19 % from
 * the exact one.
 */
const bucketsPerDoubling = 4;
/** Of values above 2^40, which only a wrong clock gives. */
const lastBucket = 40 * bucketsPerDoubling;

/**
 * The histogram bucket of a value in milliseconds or seconds. The first holds all values up to 1.
 */
export function bucketOf(value: number): number {
  return value > 1 ? Math.min(lastBucket, Math.ceil(Math.log2(value) * bucketsPerDoubling)) : 0;
}

const boundOf = (bucket: number): number => 2 ** (bucket / bucketsPerDoubling);
const lowOf = (bucket: number): number => (bucket === 0 ? 0 : boundOf(bucket - 1));
const middleOf = (bucket: number): number => (lowOf(bucket) + boundOf(bucket)) / 2;

/**
 * A quantile of a histogram, from its counts by bucket; null when it is empty. Values spread evenly
 * within their bucket.
 */
export function quantile(buckets: ReadonlyMap<number, number>, share: number): number | null {
  const counted = [...buckets].filter(([, n]) => n > 0).sort(([a], [b]) => a - b);
  const rank = share * counted.reduce((sum, [, n]) => sum + n, 0);
  let below = 0;
  for (const [index, [bucket, n]] of counted.entries()) {
    if (below + n >= rank || index === counted.length - 1) {
      const low = lowOf(bucket);
      const value = low + ((boundOf(bucket) - low) * (rank - below)) / n;
      return Math.round(value * 100) / 100;
    }
    below += n;
  }
  return null;
}

export function statusLabel(subject: "message" | "run", status: string): string {
  return subject === "run" ? `run ${status}` : status;
}

export function skippedBy(from: string | null, to: string): ("sent" | "delivered")[] {
  if (!isStatus(messageStatuses, to) || (from !== null && !isStatus(messageStatuses, from)))
    return [];
  return (["sent", "delivered"] as const).filter(
    (status) =>
      supersedes(messageStatuses, from, status) &&
      status !== to &&
      supersedes(messageStatuses, status, to),
  );
}

/** The histogram of a message's new status, with the seconds since it was sent; null: none. */
function timeOfStatus(
  status: string,
  times: Readonly<Record<string, number>>,
  reportedSentAt: number | null,
) {
  const series: "toDelivered" | "toRead" | null =
    status === "delivered" ? "toDelivered" : status === "read" ? "toRead" : null;
  const [sentAt, at] = [times["sent"] ?? reportedSentAt, times[status]];
  return series === null || sentAt === null || at === undefined
    ? null
    : { series, seconds: Math.max(0, (at - sentAt) / 1000) };
}

type TrackedCount = readonly [
  series: "transitions" | "skipped" | "failures" | "toDelivered" | "toRead",
  label: string,
];

/**
 * What the history counts when an event moved a message or run. `times` and `reportedSentAt` are of
 * the message after it.
 */
export function countsOfTracking(
  { subject, transition, errorCode }: Tracking,
  times: Readonly<Record<string, number>>,
  reportedSentAt: number | null,
): TrackedCount[] {
  if (transition === null || subject === "none") return [];
  const counts: TrackedCount[] = [["transitions", statusLabel(subject, transition.to)]];
  if (subject === "run") return counts;
  for (const status of skippedBy(transition.from, transition.to)) counts.push(["skipped", status]);
  if (transition.to === "failed") counts.push(["failures", errorCode ?? noCode]);
  const timed = timeOfStatus(transition.to, times, reportedSentAt);
  if (timed !== null) counts.push([timed.series, String(bucketOf(timed.seconds))]);
  return counts;
}

export const seriesTable = `| \`name\` | counts | by the minute of | \`by\` |
|---|---|---|---|
| \`events\` | stored events; a later disposition replaces the earlier one | receipt | \`disposition\`, \`source\` |
| \`transitions\` | events that moved a message to a new status; a run counts as \`run completed\` or \`run failed\` | receipt | \`status\`, \`source\` |
| \`skipped\` | statuses that a transition passed over: \`sent\` when \`delivered\` came first | receipt | \`status\`, \`source\` |
| \`failures\` | messages that moved to \`failed\`; from the 201st code of an hour on as \`other\` | receipt | \`code\` |
| \`attempts\` | attempts by \`delivered\`, an HTTP status or a cause such as \`timeout\` | start | \`outcome\`, \`route\` |
| \`dead\` | deliveries that became dead letters | settlement | \`route\` |
| \`ack\` | milliseconds from a webhook's request to its answer | answer | percentiles |
| \`delivery\` | milliseconds from receipt to delivered, without replays | settlement | percentiles |
| \`toDelivered\`, \`toRead\` | seconds from sent to delivered, and to read | receipt | percentiles |
| \`oldest\` | age of the oldest due delivery in seconds | sample | |
| \`deadLetters\` | number of dead letters | sample | |`;

const noCode = "none";

export const stepNames = { minute: 60, hour: 3600, day: 86_400 } as const;
export type StepName = keyof typeof stepNames;

export const seriesKeys = ["disposition", "status", "code", "outcome", "source", "route"] as const;
type SeriesKey = (typeof seriesKeys)[number];

export interface SeriesQuery {
  readonly name: SeriesName;
  /** What each label stands for; null: one sum, or the percentiles of a histogram. */
  readonly by: SeriesKey | null;
  /** At the begin of a step, from (included) and to (not included). */
  readonly from: number;
  readonly to: number;
  /** Seconds. */
  readonly step: (typeof stepNames)[StepName];
  readonly source?: string | undefined;
  readonly route?: string | undefined;
  /** Later steps have no values. */
  readonly now: number;
}

export function keysOf(name: SeriesName): SeriesKey[] {
  const { kind, of, label }: SeriesRule = historySeries[name];
  if (kind !== "counter") return [];
  return [label, of].filter((key) => key !== null);
}

const dayMs = 24 * hourMs;
export const mostSteps = 3000;

/**
 * The whole query. `from` moves down and `to` up to a step; minutes that became hours are read by
 * hour.
 */
export function seriesQuery(
  given: Pick<SeriesQuery, "name" | "source" | "route"> & {
    readonly by?: SeriesKey | undefined;
    readonly from?: number | undefined;
    readonly to?: number | undefined;
    readonly step?: StepName | undefined;
  },
  now: number,
): SeriesQuery {
  const { name, source, route, to = now, from = to - dayMs } = given;
  const span = to - from;
  const wanted = given.step ?? (span <= dayMs ? "minute" : span <= 31 * dayMs ? "hour" : "day");
  const step = stepNames[wanted === "minute" && from < now - minutesKeptMs ? "hour" : wanted];
  const stepMs = step * 1000;
  const begin = Math.floor(from / stepMs) * stepMs;
  const end = Math.max(begin + stepMs, Math.ceil(to / stepMs) * stepMs);
  return {
    name,
    by: given.by ?? keysOf(name)[0] ?? null,
    from: begin,
    to: end,
    step,
    source,
    route,
    now,
  };
}

const nullable = (text: string) => z.number().nullable().describe(text);

export const seriesSchema = component("Series", "Counts, percentiles or gauges over time.", {
  name: z.enum(seriesNames).describe("The series."),
  by: z
    .enum(seriesKeys)
    .nullable()
    .describe("What the labels stand for; null for one sum, and for percentiles."),
  unit: z
    .enum(["count", "ms", "s"])
    .describe("Unit of the values. The series `count` of a histogram is a number of samples."),
  step: z
    .literal([60, 3600, 86_400])
    .describe("Seconds between two values. Minutes older than two days are answered by hour."),
  from: time.describe("Begin of the first step."),
  to: time.describe("End of the last step."),
  series: z
    .array(
      z.object({
        label: foreign.describe(
          "Value of `by`, or `total`. For a histogram `p50`, `p90`, `p99` or `count`. `other` has what exceeds 50 labels.",
        ),
        values: z
          .array(nullable("Null: no sample, or a step in the future."))
          .describe("`values[i]` is at `from` plus i steps."),
        total: nullable(
          "The sum. For a percentile, that of the whole range. For a gauge, the greatest value. Null: no sample.",
        ),
      }),
    )
    .describe("The greatest total first."),
});
export type SeriesView = View<typeof seriesSchema>;
export type RelaySeries = z.infer<typeof seriesSchema>;

/**
 * A stored count: of the minute or hour that begins at `at`. Without a source, route or label these
 * are empty.
 */
export interface HistoryCell {
  readonly subject: string;
  readonly label: string;
  readonly at: number;
  readonly n: number;
}

const mostLabels = 50;

/**
 * Sums up the answer to a query from the cells of its series, each added once. It keeps sums alone,
 * so that its memory grows with the answer and not with the cells.
 */
export function createSeriesSums({ name, by, from, to, step, now, source, route }: SeriesQuery) {
  const { kind, unit, of, label: labels }: SeriesRule = historySeries[name];
  const stepMs = step * 1000;
  const steps = Math.round((to - from) / stepMs);
  const only = of === "source" ? source : of === "route" ? route : undefined;
  const isPast = (index: number): boolean => from + index * stepMs <= now;
  const byLabel = new Map<string, Values>();

  function keyOf({ label, subject }: HistoryCell): string {
    if (kind === "histogram") return label;
    if (kind === "gauge" || by === null) return "total";
    return by === labels ? label : subject;
  }

  return {
    /** The only source or route whose cells count; undefined: all. */
    only,
    add(cell: HistoryCell): void {
      if (cell.at < from || cell.at >= to || (only !== undefined && cell.subject !== only)) return;
      const index = Math.floor((cell.at - from) / stepMs);
      const values = kept(byLabel, keyOf(cell), () => new Array<number | undefined>(steps));
      const before = values[index];
      values[index] =
        before === undefined
          ? cell.n
          : kind === "gauge"
            ? Math.max(before, cell.n)
            : before + cell.n;
    },
    view(): SeriesView {
      const view = { name, by, unit, step, from, to };
      if (kind === "histogram") return { ...view, series: percentiles(byLabel, steps, isPast) };
      if (kind === "gauge")
        return { ...view, series: [greatest(byLabel.get("total") ?? [], steps)] };
      return { ...view, series: mostFrequent(byLabel, steps, isPast) };
    },
  };
}

/** By step. An array, because a thousand routes have a million values in a day. */
type Values = (number | undefined)[];
type OneSeries = SeriesView["series"][number];
const total = (counts: Iterable<number | undefined>): number =>
  [...counts].reduce<number>((sum, n = 0) => sum + n, 0);

function mostFrequent(
  sums: ReadonlyMap<string, Values>,
  steps: number,
  isPast: (index: number) => boolean,
): OneSeries[] {
  const ordered = [...sums]
    .map(([label, values]) => ({ label, values, total: total(values) }))
    .filter((one) => one.total !== 0)
    .sort((a, b) => b.total - a.total || (a.label < b.label ? -1 : 1));
  const shown = ordered.splice(0, ordered.length > mostLabels ? mostLabels - 1 : mostLabels);
  if (ordered.length > 0) {
    const known = shown.find(({ label }) => label === otherCode);
    const other = known ?? { label: otherCode, values: [], total: 0 };
    if (known === undefined) shown.push(other);
    for (const { values, total: own } of ordered) {
      for (const [index, n = 0] of values.entries())
        other.values[index] = (other.values[index] ?? 0) + n;
      other.total += own;
    }
  }
  return shown.map((one) => ({
    ...one,
    values: valuesOf(steps, (index) => (isPast(index) ? (one.values[index] ?? 0) : null)),
  }));
}

const valuesOf = (steps: number, of: (index: number) => number | null) =>
  Array.from({ length: steps }, (_, index) => of(index));

function greatest(values: Values, steps: number): OneSeries {
  const most = values.reduce<number | null>((a, b = 0) => Math.max(a ?? b, b), null);
  return { label: "total", values: valuesOf(steps, (index) => values[index] ?? null), total: most };
}

const shares = { p50: 0.5, p90: 0.9, p99: 0.99 } as const;

function percentiles(
  byBucket: ReadonlyMap<string, Values>,
  steps: number,
  isPast: (index: number) => boolean,
): OneSeries[] {
  const bucketsOf = (of: (values: Values) => number | undefined) =>
    new Map([...byBucket].map(([label, values]) => [Number(label), of(values) ?? 0]));
  const bySteps = Array.from({ length: steps }, (_, index) => bucketsOf((values) => values[index]));
  const all = bucketsOf(total);
  const ofShares = Object.entries(shares).map(([label, share]) => ({
    label,
    values: bySteps.map((buckets) => quantile(buckets, share)),
    total: quantile(all, share),
  }));
  const counts = bySteps.map((buckets, index) => (isPast(index) ? total(buckets.values()) : null));
  return [...ofShares, { label: "count", values: counts, total: total(all.values()) }];
}

const seconds = z
  .object({
    p50: nullable("Half of the messages took at most this long."),
    p90: nullable("Nine of ten took at most this long."),
  })
  .describe("In seconds; null without a message.");
const reached = (text: string) => z.number().describe(text);

export const qualitySchema = component(
  "Quality",
  "How many messages arrived, what failed, and how long they took.",
  {
    sent: reached("Messages that were sent in the range, failed ones included."),
    delivered: reached(
      "Of these, messages that were delivered, also those whose only report was `read`.",
    ),
    read: reached("Of these, messages that were read."),
    failed: reached("Messages that failed in the range, also those that arrived later."),
    pending: reached("`sent` without `delivered` and `failed`."),
    errors: z
      .array(
        z.object({
          code: foreign.describe(
            "Error code of the failure; `none` without one, `other` above 200 codes an hour.",
          ),
          meaning: z.string().nullable().describe("What the code means, if known."),
          count: z.number().describe("How many messages failed with it."),
        }),
      )
      .describe("Most frequent first."),
    toDelivered: seconds,
    toRead: seconds,
  },
);
export type QualityView = View<typeof qualitySchema>;
export type RelayQuality = z.infer<typeof qualitySchema>;

/** A message as an event left it. */
interface MovedMessage {
  readonly status: string;
  readonly previousStatus: string | null;
  readonly errorCode: string | null;
  readonly times: Readonly<Record<string, number>>;
  readonly sentAt: number | null;
}

/**
 * Sums up the quality of the messages sent from `from` on: from counts of the history, or from
 * rows.
 */
export function createQualitySums(from: number) {
  const sums = new Map<string, number>();
  const errors = new Map<string, number>();
  const timed = { toDelivered: new Map<number, number>(), toRead: new Map<number, number>() };
  return {
    /** A cell of the history, which lasts `ms`. */
    count(series: SeriesName, { label, at, n }: HistoryCell, ms: number): void {
      if (series === "transitions" || series === "skipped") countIn(sums, label, n);
      else if (series === "failures") countIn(errors, label, n);
      else if (series === "toDelivered" || series === "toRead") {
        const bucket = Number(label);
        const sentBefore = Math.floor(from / ms) * ms + middleOf(bucket) * 1000 - at;
        // Of the cell that the beginning divides, a share: its times are spread evenly.
        const late = n * Math.min(1, Math.max(0, sentBefore / ms));
        countIn(timed[series], bucket, n - late);
        countIn(sums, series === "toRead" ? "read" : "delivered", -late);
      }
    },
    move({ status, previousStatus, errorCode, times, sentAt }: MovedMessage): void {
      if ((times["sent"] ?? sentAt ?? from) < from) return;
      for (const reached of [status, ...skippedBy(previousStatus, status)])
        countIn(sums, reached, 1);
      if (status === "failed") countIn(errors, errorCode ?? noCode, 1);
      const time = timeOfStatus(status, times, sentAt);
      if (time !== null) countIn(timed[time.series], bucketOf(time.seconds), 1);
    },
    result(): QualityView {
      const of = (status: string, most = Number.POSITIVE_INFINITY): number =>
        Math.min(most, Math.round(sums.get(status) ?? 0));
      const sent = of("sent");
      // Not every message's time of sending is known, and no failure's.
      const delivered = of("delivered", sent);
      const [read, failed] = [of("read", delivered), of("failed", sent)];
      const spread = (buckets: ReadonlyMap<number, number>) => ({
        p50: quantile(buckets, 0.5),
        p90: quantile(buckets, 0.9),
      });
      return {
        sent,
        delivered,
        read,
        failed,
        pending: Math.max(0, sent - delivered - failed),
        errors: [...errors]
          .map(([code, count]) => ({ code, meaning: meaningOf(code), count }))
          .sort((a, b) => b.count - a.count || (a.code < b.code ? -1 : 1)),
        toDelivered: spread(timed.toDelivered),
        toRead: spread(timed.toRead),
      };
    },
  };
}

export const qualitySeries = [
  "transitions",
  "skipped",
  "failures",
  "toDelivered",
  "toRead",
] as const satisfies SeriesName[];

export const auditedSeries = ["events", "transitions", "attempts"] as const satisfies SeriesName[];
