import { isStatus, messageStatuses, supersedes } from "./statuses.ts";
import type { Tracking } from "./tracking.ts";

/* Counts by minute, written in the transaction that stores what they count. Minutes become hours after two days. */

export const minuteMs = 60_000;
export const hourMs = 3_600_000;
export const minutesKeptMs = 48 * hourMs;
/** Error codes are foreign text: above this number in one hour, others count as `other`. */
export const mostCodes = 200;
export const otherCode = "other";

export interface SeriesRule {
  /**
   * `counter`: a sum. `histogram`: its labels are buckets. `gauge`: the last sample of a minute,
   * the greatest of an hour.
   */
  readonly kind: "counter" | "histogram" | "gauge";
  readonly unit: "count" | "ms" | "s";
  readonly of: "source" | "route" | null;
  readonly label: "disposition" | "status" | "code" | "outcome" | null;
}

export const historySeries = {
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
export const middleOf = (bucket: number): number => (lowOf(bucket) + boundOf(bucket)) / 2;

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
export function timeOfStatus(
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

export const noCode = "none";

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

export const auditedSeries = ["events", "transitions", "attempts"] as const satisfies SeriesName[];
