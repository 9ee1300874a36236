import { type HistoryCell, minuteMs, quantile, type SeriesName } from "./history.ts";
import { kept } from "./maps.ts";
import type { DestinationView, OverviewView } from "./overview.ts";

type RouteHour = Pick<DestinationView, "successLastHour" | "p50Ms" | "p99Ms">;

export interface LastHour {
  /**
   * `eventsPerSecond` over the last minute; null: nothing was received in this hour. The store does
   * not know the values of gauges.
   */
  readonly figures: OverviewView["figures"];
  readonly routes: ReadonlyMap<string, RouteHour>;
}

const minutes = 60;

export const lastHourSeries = [
  "events",
  "ack",
  "oldest",
  "deadLetters",
  "attempts",
  "delivery",
] as const satisfies SeriesName[];

export const lastHourFrom = (now: number): number =>
  (Math.floor(now / minuteMs) - minutes + 1) * minuteMs;

interface Attempts {
  all: number;
  delivered: number;
}
type Buckets = Map<number, number>;

export function createLastHourSums(now: number) {
  const from = lastHourFrom(now);
  const byMinute = <T>(make: () => T): T[] => Array.from({ length: minutes }, make);
  const received = byMinute(() => 0);
  const acknowledged = byMinute((): Buckets => new Map());
  const gauges = {
    oldest: byMinute((): number | null => null),
    deadLetters: byMinute((): number | null => null),
  };
  const attempts = { hour: noAttempts(), minutes: byMinute(noAttempts) };
  const routes = new Map<string, { attempts: Attempts; delivery: Buckets }>();

  const routeOf = (route: string) =>
    kept(routes, route, () => ({ attempts: noAttempts(), delivery: new Map() }));

  return {
    add(series: (typeof lastHourSeries)[number], { subject, label, at, n }: HistoryCell): void {
      const minute = Math.floor((at - from) / minuteMs);
      if (minute < 0 || minute >= minutes) return;
      if (series === "events") received[minute] = (received[minute] ?? 0) + n;
      else if (series === "ack") addTo(acknowledged[minute], label, n);
      else if (series === "delivery") addTo(routeOf(subject).delivery, label, n);
      else if (series === "attempts") {
        for (const sums of [attempts.hour, attempts.minutes[minute], routeOf(subject).attempts]) {
          if (sums === undefined) continue;
          sums.all += n;
          if (label === "delivered") sums.delivered += n;
        }
      } else gauges[series][minute] = Math.max(gauges[series][minute] ?? n, n);
    },
    result(): LastHour {
      const isIdle = received.every((count) => count === 0);
      const ackP99Ms = acknowledged.map((buckets) => quantile(buckets, 0.99));
      return {
        figures: {
          eventsPerSecond: {
            value: isIdle ? null : overLastMinute(received, now),
            lastHour: received.map((count) => (isIdle ? null : count / 60)),
          },
          ackP99Ms: {
            value: ackP99Ms.findLast((value) => value !== null) ?? null,
            lastHour: ackP99Ms,
          },
          oldestDeliverySeconds: { value: null, lastHour: gauges.oldest },
          deliveredShare: {
            value: shareOf(attempts.hour),
            lastHour: attempts.minutes.map(shareOf),
          },
          deadLetters: { value: null, lastHour: gauges.deadLetters },
        },
        routes: new Map(
          [...routes].map(([route, own]) => [
            route,
            {
              successLastHour: shareOf(own.attempts),
              p50Ms: quantile(own.delivery, 0.5),
              p99Ms: quantile(own.delivery, 0.99),
            },
          ]),
        ),
      };
    },
  };
}

const noAttempts = (): Attempts => ({ all: 0, delivered: 0 });

function addTo(buckets: Buckets | undefined, label: string, n: number): void {
  buckets?.set(Number(label), (buckets.get(Number(label)) ?? 0) + n);
}

const shareOf = ({ all, delivered }: Attempts): number | null =>
  all === 0 ? null : delivered / all;

/**
 * Events per second: the current minute so far, and the part of the one before that completes a
 * minute.
 */
function overLastMinute(received: readonly number[], now: number): number {
  const elapsed = (now % minuteMs) / minuteMs;
  return ((received.at(-1) ?? 0) + (received.at(-2) ?? 0) * (1 - elapsed)) / 60;
}

export const noHistory: LastHour = createLastHourSums(0).result();
export const noRouteHour: RouteHour = { successLastHour: null, p50Ms: null, p99Ms: null };
