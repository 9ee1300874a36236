import { z } from "zod";
import { meaningOf } from "./failure-codes.ts";
import {
  bucketOf,
  type HistoryCell,
  middleOf,
  noCode,
  quantile,
  type SeriesName,
  skippedBy,
  timeOfStatus,
} from "./history.ts";
import { countIn } from "./maps.ts";
import { component, foreign, type View } from "./view.ts";

const seconds = z
  .object({
    p50: z.number().nullable().describe("Half of the messages took at most this long."),
    p90: z.number().nullable().describe("Nine of ten took at most this long."),
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
