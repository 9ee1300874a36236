import { z } from "zod";
import {
  type HistoryCell,
  historySeries,
  hourMs,
  minutesKeptMs,
  otherCode,
  quantile,
  type SeriesName,
  type SeriesRule,
  seriesNames,
} from "./history.ts";
import { kept } from "./maps.ts";
import { component, foreign, time, type View } from "./view.ts";

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
