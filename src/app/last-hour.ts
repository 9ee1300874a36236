import { type SeriesName, type SeriesView, seriesQuery } from "../model/history.ts";
import type { DestinationView, OverviewView } from "../model/overview.ts";
import type { HistoryReading } from "../store/reading.ts";

type Values = readonly (number | null)[];

/** What the overview shows of the history: the last 60 minutes, the current one last. */
export interface LastHour {
  readonly figures: Readonly<Record<keyof OverviewView["figures"], Values>>;
  /** Over the last minute. Null: nothing was received in this hour. */
  readonly eventsPerSecond: number | null;
  /** The latest that was measured. */
  readonly ackP99Ms: number | null;
  /** Over the hour. */
  readonly deliveredShare: number | null;
  of(route: string): Pick<DestinationView, "successLastHour" | "p50Ms" | "p99Ms">;
}

const minutes = 60;
const minuteMs = 60_000;

const empty: Values = new Array<null>(minutes).fill(null);

/** Before anything was read. */
export const noHistory: LastHour = {
  figures: { eventsPerSecond: empty, ackP99Ms: empty, oldestDeliverySeconds: empty, deliveredShare: empty, deadLetters: empty },
  eventsPerSecond: null,
  ackP99Ms: null,
  deliveredShare: null,
  of: () => ({ successLastHour: null, p50Ms: null, p99Ms: null }),
};

type Series = SeriesView["series"];

/** Reads the last hour for these routes. */
export async function readLastHour({ series }: HistoryReading, routes: readonly string[], now: number): Promise<LastHour> {
  const from = (Math.floor(now / minuteMs) - minutes + 1) * minuteMs;
  const read = async (name: SeriesName, by?: "disposition" | "outcome", route?: string): Promise<Series> =>
    (await series(seriesQuery({ name, by, from, to: from + minutes * minuteMs, step: "minute", route }, now))).series;

  const [events, ack, oldest, deadLetters, attempts] = await Promise.all([
    read("events", "disposition"),
    read("ack"),
    read("oldest"),
    read("deadLetters"),
    read("attempts", "outcome"),
  ]);
  const ofRoutes = new Map<string, ReturnType<LastHour["of"]>>();
  for (const route of routes) {
    const [own, delivery] = await Promise.all([read("attempts", "outcome", route), read("delivery", undefined, route)]);
    ofRoutes.set(route, { successLastHour: shareOf(own, totalOf), p50Ms: totalOf(delivery, "p50"), p99Ms: totalOf(delivery, "p99") });
  }
  const received = sumByMinute(events);
  const ackP99 = valuesOf(ack, "p99");
  return {
    figures: {
      eventsPerSecond: received.map((count) => (count === null ? null : count / 60)),
      ackP99Ms: ackP99,
      oldestDeliverySeconds: valuesOf(oldest, "total"),
      deliveredShare: empty.map((_, index) => shareOf(attempts, (some, label) => valuesOf(some, label)[index] ?? null)),
      deadLetters: valuesOf(deadLetters, "total"),
    },
    eventsPerSecond: overLastMinute(received, now),
    ackP99Ms: ackP99.findLast((value) => value !== null) ?? null,
    deliveredShare: shareOf(attempts, totalOf),
    of: (route) => ofRoutes.get(route) ?? noHistory.of(route),
  };
}

const find = (series: Series, label: string) => series.find((each) => each.label === label);
const valuesOf = (series: Series, label: string): Values => find(series, label)?.values ?? empty;
const totalOf = (series: Series, label: string): number | null => find(series, label)?.total ?? null;

function sumByMinute(series: Series): Values {
  if (series.length === 0) return empty;
  return empty.map((_, index) => series.reduce<number | null>((sum, { values }) => addUp(sum, values[index] ?? null), null));
}

const addUp = (a: number | null, b: number | null): number | null => (a === null ? b : b === null ? a : a + b);

/** The share of the attempts that delivered. */
function shareOf(attempts: Series, countOf: (series: Series, label: string) => number | null): number | null {
  const all = attempts.reduce((sum, { label }) => sum + (countOf(attempts, label) ?? 0), 0);
  return all === 0 ? null : (countOf(attempts, "delivered") ?? 0) / all;
}

/** Events per second: the current minute so far, and the part of the one before that completes a minute. */
function overLastMinute(received: Values, now: number): number | null {
  if (received.every((count) => count === null || count === 0)) return null;
  const elapsed = (now % minuteMs) / minuteMs;
  return ((received.at(-1) ?? 0) + (received.at(-2) ?? 0) * (1 - elapsed)) / 60;
}
