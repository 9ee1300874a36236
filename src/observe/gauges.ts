import { Counter, Gauge, Histogram, type Registry } from "@prometheus-io/client";
import { conditionOf, conditions } from "../model/attention.ts";
import { countIn } from "../model/maps.ts";
import type { Attention } from "../model/overview.ts";

/** How to combine the values of several processes in a query. */
export type Combine = "sum" | "max" | "min" | "count by (version)";

interface DescribedMetric {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labelNames: readonly string[];
  readonly combine: Combine;
}

export type Maker = ReturnType<typeof createMaker>;

/** Makes the metrics of a registry, and describes them. */
export function createMaker(registry: Registry) {
  const registers = [registry];
  const described: DescribedMetric[] = [];
  const options = <Label extends string>(
    type: DescribedMetric["type"],
    name: string,
    help: string,
    labelNames: readonly Label[],
    combine: Combine,
  ) => {
    described.push({ name, type, help, labelNames, combine });
    return { name, help, labelNames, registers };
  };
  const counter = <Label extends string = never>(
    name: string,
    help: string,
    labelNames: readonly Label[] = [],
  ) => new Counter(options("counter", name, help, labelNames, "sum"));
  const gauge = <Label extends string = never>(
    name: string,
    help: string,
    combine: Combine,
    labelNames: readonly Label[] = [],
  ) => new Gauge(options("gauge", name, help, labelNames, combine));
  const histogram = <Label extends string = never>(
    name: string,
    help: string,
    buckets: number[],
    labelNames: readonly Label[] = [],
  ) => new Histogram({ ...options("histogram", name, help, labelNames, "sum"), buckets });

  return { described, counter, gauge, histogram };
}

interface RouteGauges {
  readonly route: string;
  readonly waiting: number;
  readonly held: number;
  readonly dead: number;
  /** Unix ms; null when nothing waits. */
  readonly oldestDueAt: number | null;
  readonly stopped: boolean;
  readonly breaker: "closed" | "open" | "half-open";
  /** Unix ms until which the destination asked not to be called; null when it did not. */
  readonly pausedUntil: number | null;
  readonly inFlight: number;
}

/** An account's calls. Times are unix ms; null: not held, not stopped. */
interface AccountGauges {
  readonly caps: Readonly<
    Record<
      string,
      {
        readonly used: number;
        readonly limit: number;
        readonly heldUntil: number | null;
        readonly waiting: Readonly<Record<string, number>>;
      }
    >
  >;
  readonly stops: Readonly<Record<string, number | null>>;
}

export interface Gauges {
  readonly attention: readonly Pick<Attention, "kind" | "severity" | "subject">[];
  readonly routes: readonly RouteGauges[];
  readonly accounts: ReadonlyMap<string, AccountGauges>;
  /** Of the settings in effect. `format`: what a source's bodies are, of an automation its kind. */
  readonly sources: readonly { readonly source: string; readonly format: string }[];
  readonly listeners: readonly { readonly listener: string; readonly behind: number }[];
  readonly requestsInFlight: number;
  readonly storing: boolean;
  readonly now: number;
}

type Sample = readonly [labels: Readonly<Record<string, string>>, value: number];

const breakerNumber = { closed: 0, "half-open": 1, open: 2 };

type Sampled = (
  name: string,
  help: string,
  combine: Combine,
  labelNames: readonly string[],
  read: (gauges: Gauges) => Iterable<Sample>,
) => void;

/** Metrics of what is so at a scrape. */
export function createGauges({ gauge }: Pick<Maker, "gauge">): (gauges: Gauges) => void {
  const samplings: ((gauges: Gauges) => void)[] = [];
  const sampled: Sampled = (name, help, combine, labelNames, read) => {
    const metric = gauge(name, help, combine, labelNames);
    samplings.push((gauges) => {
      metric.reset();
      for (const [labels, value] of read(gauges)) metric.set(labels, value);
    });
  };
  sampleRelay(sampled);
  sampleRoutes(sampled);
  sampleAccounts(sampled);
  return (gauges) => {
    for (const sample of samplings) sample(gauges);
  };
}

function sampleRelay(sampled: Sampled): void {
  sampled(
    "relay_source_info",
    "Always 1, for each source of the settings. Join by source to get the format.",
    "max",
    ["source", "format"],
    ({ sources }) => sources.map((source) => [source, 1]),
  );
  sampled(
    "relay_attention",
    "1 while something needs action, as the console and doctor list it. kind and severity are those of GET /v1/overview. Absent: nothing.",
    "max",
    ["kind", "severity", "route", "account"],
    ({ attention }) =>
      attention.map(({ kind, severity, subject }) => {
        const { about } = conditions[conditionOf({ kind, severity })];
        const of =
          subject === null || (about !== "route" && about !== "account")
            ? {}
            : { [about]: subject };
        return [{ kind, severity, ...of }, 1];
      }),
  );
  sampled(
    "relay_webhook_requests_in_flight",
    "Webhook requests in flight. At server.maxInFlight the relay answers others with 503.",
    "sum",
    [],
    ({ requestsInFlight }) => [[{}, requestsInFlight]],
  );
  sampled("relay_store_up", "1: the last write was stored.", "min", [], ({ storing }) => [
    [{}, Number(storing)],
  ]);
  sampled("relay_listeners", "Connected listeners.", "sum", [], ({ listeners }) => [
    [{}, listeners.length],
  ]);
  sampled(
    "relay_listener_events_behind",
    "Stored events that a listener has not received. listener is its name, masked if it contains a phone number or wamid.",
    "max",
    ["listener"],
    ({ listeners }) => {
      // Two listeners may share a name: the metric shows the one further behind.
      const most = new Map<string, number>();
      for (const { listener, behind } of listeners)
        most.set(listener, Math.max(most.get(listener) ?? 0, behind));
      return [...most].map(([listener, behind]) => [{ listener }, behind]);
    },
  );
}

function sampleRoutes(sampled: Sampled): void {
  const ofRoutes = (
    name: string,
    help: string,
    combine: Combine,
    value: (route: RouteGauges, now: number) => number,
  ): void =>
    sampled(name, help, combine, ["route"], ({ routes, now }) =>
      routes.map((each) => [{ route: each.route }, value(each, now)]),
    );
  ofRoutes(
    "relay_deliveries_waiting",
    "Waiting deliveries, due or not.",
    "max",
    ({ waiting }) => waiting,
  );
  ofRoutes(
    "relay_deliveries_held",
    "Deliveries held behind another one of their message.",
    "max",
    ({ held }) => held,
  );
  ofRoutes("relay_deliveries_dead", "Dead letters.", "max", ({ dead }) => dead);
  ofRoutes("relay_deliveries_in_flight", "Attempts in flight.", "sum", ({ inFlight }) => inFlight);
  ofRoutes(
    "relay_delivery_oldest_due_seconds",
    "How long the oldest due delivery has been due. 0: none.",
    "max",
    ({ oldestDueAt }, now) => (oldestDueAt === null ? 0 : secondsUntil(now, oldestDueAt)),
  );
  ofRoutes(
    "relay_destination_stopped",
    "1: the destination is stopped (410).",
    "max",
    ({ stopped }) => Number(stopped),
  );
  ofRoutes(
    "relay_breaker_state",
    "0: closed. 1: half-open. 2: open.",
    "max",
    ({ breaker }) => breakerNumber[breaker],
  );
  ofRoutes(
    "relay_destination_paused_seconds",
    "Rest of the destination's pause (429 with Retry-After). 0: none.",
    "max",
    ({ pausedUntil }, now) => (pausedUntil === null ? 0 : secondsUntil(pausedUntil, now)),
  );
}

function sampleAccounts(sampled: Sampled): void {
  const ofAccounts = (
    name: string,
    help: string,
    combine: Combine,
    label: string,
    values: (account: AccountGauges, now: number) => Iterable<readonly [string, number]>,
  ): void =>
    sampled(name, help, combine, ["account", label], function* ({ accounts, now }) {
      for (const [account, gauges] of accounts)
        for (const [of, value] of values(gauges, now)) yield [{ account, [label]: of }, value];
    });
  const ofCaps = (
    name: string,
    help: string,
    value: (cap: AccountGauges["caps"][string]) => number,
  ): void =>
    ofAccounts(name, help, "max", "cap", ({ caps }) =>
      Object.entries(caps).map(([cap, of]) => [cap, value(of)]),
    );
  ofCaps(
    "relay_service_slots_used",
    "Calls that count against the cap per minute: those in flight and those of the last minute.",
    ({ used }) => used,
  );
  ofCaps(
    "relay_service_slots_limit",
    "The relay's share of the cap per minute.",
    ({ limit }) => limit,
  );
  ofCaps(
    "relay_service_cap_held",
    "1 while the relay sends no call of this cap, because the service answered 429.",
    ({ heldUntil }) => Number(heldUntil !== null),
  );
  ofAccounts(
    "relay_service_calls_waiting",
    "Calls that wait for room under the caps.",
    "sum",
    "priority",
    ({ caps }) => {
      const sums = new Map<string, number>();
      for (const { waiting } of Object.values(caps))
        for (const [priority, calls] of Object.entries(waiting)) countIn(sums, priority, calls);
      return sums;
    },
  );
  ofAccounts(
    "relay_service_stopped",
    "1 while the relay refuses calls without a request.",
    "max",
    "reason",
    ({ stops }, now) =>
      // A key stays refused until a call succeeds. A quota may have been renewed without a call.
      Object.entries(stops).map(([reason, until]) => [
        reason,
        Number(until !== null && (reason === "unauthenticated" || until > now)),
      ]),
  );
}

const secondsUntil = (at: number, from: number): number => Math.max(0, (at - from) / 1000);
