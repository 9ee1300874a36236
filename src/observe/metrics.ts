import { setImmediate as nextTurn } from "node:timers/promises";
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "@prometheus-io/client";
import { conditionOf, conditions } from "../model/attention.ts";
import type { Attention } from "../model/overview.ts";

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

/** An account's limits. */
export interface ServiceGauges {
  readonly account: string;
  readonly caps: readonly { readonly cap: string; readonly used: number; readonly limit: number; readonly held: boolean }[];
  readonly waiting: readonly { readonly priority: string; readonly calls: number }[];
  readonly stops: readonly { readonly reason: string; readonly inForce: boolean }[];
}

/** Read at each scrape. */
export interface Gauges {
  readonly attention: readonly Pick<Attention, "kind" | "severity" | "subject">[];
  readonly routes: readonly RouteGauges[];
  readonly services: readonly ServiceGauges[];
  /** Of the settings in effect. `format`: what a source's bodies are, of an automation its kind. */
  readonly sources: readonly { readonly source: string; readonly format: string }[];
  /** How many events each listener is behind. */
  readonly listeners: readonly { readonly listener: string; readonly behind: number }[];
  readonly requestsInFlight: number;
  readonly storing: boolean;
  readonly now: number;
}

/** What runs: the labels of `relay_build_info`. */
interface BuildInfo {
  readonly version: string;
  /** Version of Node. */
  readonly node: string;
  readonly storage: "sqlite" | "postgres";
}

export type Metrics = ReturnType<typeof createMetrics>;

/** How to combine the values of several processes in a query. */
type Combine = "sum" | "max" | "min" | "count by (version)";

/** For docs/reference/metrics.md. */
interface DescribedMetric {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labelNames: readonly string[];
  readonly combine: Combine;
}

/** With a thousand routes, rendering takes a tenth of a second: after this many ms other work goes on. */
const sliceMs = 5;
const seconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const untilADay = [...seconds, 60, 300, 3600, 86400];
const writes = [1, 2, 5, 10, 25, 50, 100, 250, 500];
/** By the first digit of a status. 0: the client left before it got an answer. */
const statusClasses = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];
const breakerNumber = { closed: 0, "half-open": 1, open: 2 };

let ofProcess: Registry | null = null;

/** Node's own metrics, once for a process: their timers and observers never end. */
function nodeMetrics(): Registry {
  if (ofProcess === null) {
    ofProcess = new Registry();
    collectDefaultMetrics({ register: ofProcess });
  }
  return ofProcess;
}

/** The relay's metrics, in their own registry. Labels are few, and never hold a wamid or a phone number. */
export function createMetrics(build: BuildInfo) {
  const registry = new Registry();
  const registers = [registry];
  const ofNode = nodeMetrics();

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
  const counter = <Label extends string = never>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Counter(options("counter", name, help, labelNames, "sum"));
  const gauge = <Label extends string = never>(name: string, help: string, combine: Combine, labelNames: readonly Label[] = []) =>
    new Gauge(options("gauge", name, help, labelNames, combine));
  const histogram = <Label extends string = never>(name: string, help: string, buckets: number[], labelNames: readonly Label[] = []) =>
    new Histogram({ ...options("histogram", name, help, labelNames, "sum"), buckets });
  /** Counts by two labels, such as `relay_events_total` by source and disposition. */
  const tally = (name: string, help: string, [first, second]: readonly [string, string]) => {
    const counted = counter(name, help, [first, second]);
    return { count: (one: string, other: string) => counted.inc({ [first]: one, [second]: other }) };
  };

  const metrics = {
    requestSeconds: histogram(
      "relay_webhook_request_seconds",
      "From the headers of a webhook request to the end of its answer. status is a class such as 2xx, or none without an answer.",
      seconds,
      ["source", "status"],
    ),
    apiSeconds: histogram(
      "relay_api_request_seconds",
      "From the headers of any other request to the end of its answer. endpoint is an operation of the OpenAPI document or a path; - for an unknown one. A stream counts when it ends.",
      seconds,
      ["endpoint", "status"],
    ),
    requests: tally("relay_webhook_requests_total", "Webhook requests by outcome. source is - for paths that name none.", [
      "source",
      "outcome",
    ]),
    dispositions: tally("relay_events_total", "Events by their first disposition. released counts bodies that left quarantine.", [
      "source",
      "disposition",
    ]),
    secretUses: tally("relay_secret_uses_total", "Verified events by the fingerprint of the secret.", ["source", "secret"]),
    setAside: counter(
      "relay_set_aside_total",
      "Events (stage plan) and deliveries (compose, send, report, settle) on which the relay itself failed. Alert on any.",
      ["stage"],
    ),

    attempts: counter("relay_delivery_attempts_total", "Attempts to deliver, by outcome.", ["route", "outcome"]),
    attemptSeconds: histogram("relay_delivery_attempt_seconds", "Duration of an attempt.", seconds, ["route"]),
    lag: histogram(
      "relay_delivery_lag_seconds",
      "From receipt of an event to the answer that ended its delivery, also over restarts. attempt is first or later. Without replays.",
      untilADay,
      ["route", "attempt"],
    ),

    commitSeconds: histogram("relay_commit_seconds", "Duration of a transaction, with its wait for the disk or the server.", seconds),
    commitWrites: histogram("relay_commit_writes", "Writes in one transaction.", writes),
    storeFailures: counter("relay_store_failures_total", "Transactions that failed."),
    deleted: counter("relay_retention_deleted_total", "Rows that retention deleted: events, deliveries, messages.", ["what"]),

    backup: {
      success: gauge(
        "relay_backup_last_success_timestamp_seconds",
        "Time of the last good scheduled backup, in Unix seconds. 0: none.",
        "max",
      ),
      seconds: gauge("relay_backup_duration_seconds", "Duration of the last scheduled backup, with its checks.", "max"),
      bytes: gauge("relay_backup_size_bytes", "Size of the last scheduled backup.", "max"),
      failures: counter("relay_backup_failures_total", "Scheduled backups that failed, or whose sums do not match."),
    },

    reloadSuccess: gauge("relay_settings_reload_success", "1: the last reload of the settings was applied. 0: it was refused.", "min"),
    reloadTimestamp: gauge(
      "relay_settings_reload_timestamp_seconds",
      "Time at which the settings in effect were read, in Unix seconds.",
      "min",
    ),

    badTokens: counter("relay_bad_tokens_total", "Requests to the control API with an unknown token, or with none (missing).", ["reason"]),
    guesses: counter(
      "relay_phone_guesses_total",
      "Searches for a phone number by a token without the scope pii: found, missed, or refused by the limit.",
      ["token", "result"],
    ),
    sends: counter("relay_sends_total", "Calls that send a message or start a run: done, not-done (certainly not sent) or unknown.", [
      "account",
      "kind",
      "outcome",
    ]),
    serviceCalls: counter("relay_service_calls_total", "Calls to the messaging service, by outcome.", ["account", "outcome"]),

    reconcile: {
      polls: counter("relay_reconcile_polls_total", "Polls of messages: changed, unchanged, missing (unknown to the service) or failed.", [
        "account",
        "outcome",
      ]),
      postponed: gauge(
        "relay_reconcile_postponed",
        "Polls that were due at the last pass and are postponed, so that the monthly quota lasts.",
        "max",
        ["account"],
      ),
      faulty: gauge(
        "relay_polls_faulty",
        "1 while the service answers every poll with 404, another 4xx, or something unreadable. Absent before the first poll.",
        "max",
        ["account"],
      ),
      missed: counter("relay_webhooks_missed_total", "Statuses that polls found and whose webhook did not arrive within two minutes.", [
        "account",
      ]),
      silence: gauge("relay_silence", "1 while webhooks are missing.", "max", ["account"]),
    },
    hydration: {
      settled: counter("relay_hydrations_total", "Truncated events by how their hydration ended: done or given-up.", ["account", "state"]),
      passes: counter("relay_hydration_passes_total", "Hydration passes that ended.", ["account"]),
      polls: counter("relay_hydration_polls_total", "Messages polled because of truncated events.", ["account"]),
      found: counter("relay_hydration_found_total", "Statuses found by polls because of truncated events.", ["account"]),
    },
  };

  gauge("relay_build_info", "Always 1. The labels have the versions of the relay and of Node, and the engine.", "count by (version)", [
    "version",
    "node",
    "storage",
  ]).set({ ...build }, 1);

  const sourceInfo = gauge("relay_source_info", "Always 1, for each source of the settings. Join by source to get the format.", "max", [
    "source",
    "format",
  ]);

  const attentionGauge = gauge(
    "relay_attention",
    "1 while something needs action, as the console and doctor list it. kind and severity are those of GET /v1/overview. Absent: nothing.",
    "max",
    ["kind", "severity", "route", "account"],
  );

  const up = {
    inFlight: gauge(
      "relay_webhook_requests_in_flight",
      "Webhook requests in flight. At server.maxInFlight the relay answers others with 503.",
      "sum",
    ),
    storing: gauge("relay_store_up", "1: the last write was stored.", "min"),
    listeners: gauge("relay_listeners", "Connected listeners.", "sum"),
    behind: gauge(
      "relay_listener_events_behind",
      "Stored events that a listener has not received. listener is its name, masked if it contains a phone number or wamid.",
      "max",
      ["listener"],
    ),
  };

  const byRoute = (name: string, help: string, combine: Combine, value: (route: RouteGauges, now: number) => number) =>
    [gauge(name, help, combine, ["route"]), value] as const;
  const routeGauges = [
    byRoute("relay_deliveries_waiting", "Waiting deliveries, due or not.", "max", ({ waiting }) => waiting),
    byRoute("relay_deliveries_held", "Deliveries held behind another one of their message.", "max", ({ held }) => held),
    byRoute("relay_deliveries_dead", "Dead letters.", "max", ({ dead }) => dead),
    byRoute("relay_deliveries_in_flight", "Attempts in flight.", "sum", ({ inFlight }) => inFlight),
    byRoute("relay_delivery_oldest_due_seconds", "How long the oldest due delivery has been due. 0: none.", "max", ({ oldestDueAt }, now) =>
      secondsBetween(oldestDueAt, now),
    ),
    byRoute("relay_destination_stopped", "1: the destination is stopped (410).", "max", ({ stopped }) => Number(stopped)),
    byRoute("relay_breaker_state", "0: closed. 1: half-open. 2: open.", "max", ({ breaker }) => breakerNumber[breaker]),
    byRoute(
      "relay_destination_paused_seconds",
      "Rest of the destination's pause (429 with Retry-After). 0: none.",
      "max",
      ({ pausedUntil }, now) => (pausedUntil === null ? 0 : secondsBetween(now, pausedUntil)),
    ),
  ];

  const accountGauges = {
    used: gauge(
      "relay_service_slots_used",
      "Calls that count against the cap per minute: those in flight and those of the last minute.",
      "max",
      ["account", "cap"],
    ),
    limit: gauge("relay_service_slots_limit", "The relay's share of the cap per minute.", "max", ["account", "cap"]),
    held: gauge("relay_service_cap_held", "1 while the relay sends no call of this cap, because the service answered 429.", "max", [
      "account",
      "cap",
    ]),
    waiting: gauge("relay_service_calls_waiting", "Calls that wait for room under the caps.", "sum", ["account", "priority"]),
    stopped: gauge("relay_service_stopped", "1 while the relay refuses calls without a request.", "max", ["account", "reason"]),
  };

  function observeRoutes(routes: readonly RouteGauges[], now: number): void {
    for (const [metric, value] of routeGauges) {
      metric.reset();
      for (const route of routes) metric.set({ route: route.route }, value(route, now));
    }
  }

  function observeAccounts(services: readonly ServiceGauges[]): void {
    const { used, limit, held, waiting, stopped } = accountGauges;
    for (const metric of Object.values(accountGauges)) metric.reset();
    for (const { account, caps, waiting: queues, stops } of services) {
      for (const { cap, ...slots } of caps) {
        used.set({ account, cap }, slots.used);
        limit.set({ account, cap }, slots.limit);
        held.set({ account, cap }, Number(slots.held));
      }
      for (const { priority, calls } of queues) waiting.set({ account, priority }, calls);
      for (const { reason, inForce } of stops) stopped.set({ account, reason }, Number(inForce));
    }
  }

  function observeAttention(attention: Gauges["attention"]): void {
    attentionGauge.reset();
    for (const { kind, severity, subject } of attention) {
      const { about } = conditions[conditionOf({ kind, severity })];
      const of = subject === null || (about !== "route" && about !== "account") ? {} : { [about]: subject };
      attentionGauge.set({ kind, severity, ...of }, 1);
    }
  }

  function observeListeners(listeners: Gauges["listeners"]): void {
    up.listeners.set(listeners.length);
    up.behind.reset();
    // Two listeners may share a name: the metric shows the one further behind.
    const most = new Map<string, number>();
    for (const { listener, behind } of listeners) most.set(listener, Math.max(most.get(listener) ?? 0, behind));
    for (const [listener, events] of most) up.behind.set({ listener }, events);
  }

  return {
    ...metrics,
    described,
    contentType: registry.contentType,
    /** The text that Prometheus scrapes. */
    async text({ attention, routes, services, sources, listeners, requestsInFlight, storing, now }: Gauges): Promise<string> {
      observeAttention(attention);
      sourceInfo.reset();
      for (const source of sources) sourceInfo.set(source, 1);
      observeRoutes(routes, now);
      observeAccounts(services);
      observeListeners(listeners);
      up.inFlight.set(requestsInFlight);
      up.storing.set(Number(storing));
      const texts: string[] = [];
      let startedAt = performance.now();
      for (const from of [ofNode, registry]) {
        for (const { name } of from.getMetricsAsArray()) {
          texts.push(await from.getSingleMetricAsString(name));
          if (performance.now() - startedAt < sliceMs) continue;
          await nextTurn();
          startedAt = performance.now();
        }
      }
      return `${texts.join("\n\n")}\n`;
    },
  };
}

/** The class of an HTTP status as a label; 0 for a request that got no answer. */
export function statusClass(status: number): string {
  return statusClasses[Math.floor(status / 100)] ?? "other";
}

function secondsBetween(from: number | null, to: number): number {
  return from === null ? 0 : Math.max(0, (to - from) / 1000);
}
