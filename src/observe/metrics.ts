import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "@prometheus-io/client";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { createHydrationMetrics, createReconcileMetrics, createServiceMetrics, type ServiceGauges } from "./account-metrics.ts";

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

/** Read at each scrape. */
export interface Gauges {
  readonly routes: readonly RouteGauges[];
  readonly services: readonly ServiceGauges[];
  /** How many events each listener is behind. */
  readonly listeners: readonly { readonly listener: string; readonly behind: number }[];
  /** Events that no worker has planned yet. */
  readonly unplanned: {
    readonly events: number;
    /** Unix ms at which the first of them was received; null: there are none. */
    readonly oldestAt: number | null;
  };
  readonly requestsInFlight: number;
  readonly storing: boolean;
  readonly now: number;
}

export type Metrics = ReturnType<typeof createMetrics>;

const seconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const breakerNumber = { closed: 0, "half-open": 1, open: 2 };

const secondsSince = (at: number | null, now: number): number => (at === null ? 0 : Math.max(0, (now - at) / 1000));

/** The relay's metrics, in their own registry. Labels are few, and never hold a wamid or a phone number. */
export function createMetrics(read: () => MaybePromise<Gauges>) {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });

  const requests = createTally(registry, "relay_webhook_requests_total", "Webhook requests by outcome", ["source", "outcome"]);
  const dispositions = createTally(registry, "relay_events_total", "Events stored, by source and first disposition", [
    "source",
    "disposition",
  ]);
  const attempts = new Counter({
    name: "relay_delivery_attempts_total",
    help: "Attempts to deliver by what followed",
    labelNames: ["route", "outcome"],
    registers,
  });
  const attemptSeconds = new Histogram({
    name: "relay_delivery_attempt_seconds",
    help: "Time an attempt took",
    labelNames: ["route"],
    buckets: seconds,
    registers,
  });
  const lag = new Histogram({
    name: "relay_delivery_lag_seconds",
    help: "From accepting an event to its delivery",
    labelNames: ["route"],
    buckets: [...seconds, 60, 300, 3600, 86400],
    registers,
  });
  const commitSeconds = new Histogram({ name: "relay_commit_seconds", help: "Time a transaction took", buckets: seconds, registers });
  const commitWrites = new Histogram({
    name: "relay_commit_writes",
    help: "Writes in one transaction",
    buckets: [1, 2, 5, 10, 25, 50, 100, 250, 500],
    registers,
  });
  const storeFailures = new Counter({ name: "relay_store_failures_total", help: "Transactions that failed", registers });
  const setAside = new Counter({
    name: "relay_set_aside_total",
    help: "Events and deliveries that the relay failed on and set aside, by stage",
    labelNames: ["stage"],
    registers,
  });
  const badTokens = new Counter({
    name: "relay_bad_tokens_total",
    help: "Requests to the control API without a known token",
    labelNames: ["reason"],
    registers,
  });
  const verifications = createTally(registry, "relay_secret_proofs_total", "Events proved, by the secret's fingerprint", [
    "source",
    "secret",
  ]);
  const sends = new Counter({
    name: "relay_sends_total",
    help: "Messages and runs that were to be sent, by what became of the call",
    labelNames: ["account", "kind", "outcome"],
    registers,
  });
  const service = createServiceMetrics(registry);
  const reconcile = createReconcileMetrics(registry);
  const hydration = createHydrationMetrics(registry);
  const listen = createListenMetrics(registry);
  const purged = new Counter({ name: "relay_retention_deleted_total", help: "Rows deleted by retention", labelNames: ["what"], registers });

  const gauge = (name: string, help: string) => new Gauge({ name, help, labelNames: ["route"], registers });
  const waiting = gauge("relay_deliveries_waiting", "Deliveries waiting, due or not");
  const held = gauge("relay_deliveries_held", "Deliveries held behind another of their message");
  const dead = gauge("relay_deliveries_dead", "Dead letters");
  const oldest = gauge("relay_delivery_oldest_due_seconds", "How long the most overdue waiting delivery has been due");
  const stopped = gauge("relay_destination_stopped", "1 when the destination is stopped (410 or by an operator)");
  const breaker = gauge("relay_breaker_state", "0 closed, 1 half-open, 2 open");
  const paused = gauge("relay_destination_paused_seconds", "How long the destination still pauses (429 with Retry-After); 0: it does not");
  const sending = gauge("relay_deliveries_in_flight", "Attempts under way");
  const unplanned = new Gauge({ name: "relay_unplanned_events", help: "Events accepted that no worker has planned yet", registers });
  const unplannedOldest = new Gauge({
    name: "relay_unplanned_oldest_seconds",
    help: "How long the first of the events that no worker has planned yet has been waiting",
    registers,
  });
  const inFlight = new Gauge({ name: "relay_webhook_requests_in_flight", help: "Webhook requests in hand", registers });
  const storing = new Gauge({ name: "relay_store_up", help: "1 when the last write was stored", registers });

  async function observeGauges(): Promise<void> {
    const { routes, services, listeners, unplanned: waitingEvents, requestsInFlight, storing: up, now } = await read();
    service.observe(services);
    listen.observe(listeners);
    for (const metric of [waiting, held, dead, oldest, stopped, breaker, paused, sending]) metric.reset();
    for (const route of routes) {
      const labels = { route: route.route };
      waiting.set(labels, route.waiting);
      held.set(labels, route.held);
      dead.set(labels, route.dead);
      oldest.set(labels, secondsSince(route.oldestDueAt, now));
      stopped.set(labels, route.stopped ? 1 : 0);
      breaker.set(labels, breakerNumber[route.breaker]);
      paused.set(labels, route.pausedUntil === null ? 0 : Math.max(0, (route.pausedUntil - now) / 1000));
      sending.set(labels, route.inFlight);
    }
    unplanned.set(waitingEvents.events);
    unplannedOldest.set(secondsSince(waitingEvents.oldestAt, now));
    inFlight.set(requestsInFlight);
    storing.set(up ? 1 : 0);
  }

  return {
    requests,
    dispositions,
    attempts,
    attemptSeconds,
    lag,
    commitSeconds,
    commitWrites,
    storeFailures,
    setAside,
    badTokens,
    proofs: verifications,
    sends,
    swept: purged,
    serviceCalls: service.calls,
    reconcile,
    hydration,
    contentType: registry.contentType,
    /** The text that Prometheus scrapes. */
    async text(): Promise<string> {
      await observeGauges();
      return registry.metrics();
    },
  };
}

/** Metrics of listeners, by name or address. */
function createListenMetrics(registry: Registry) {
  const registers = [registry];
  const listeners = new Gauge({ name: "relay_listeners", help: "Connections that listen to events", registers });
  const behind = new Gauge({
    name: "relay_listener_events_behind",
    help: "Events stored that a listener has not been handed",
    labelNames: ["listener"],
    registers,
  });
  return {
    observe(lags: readonly { readonly listener: string; readonly behind: number }[]): void {
      listeners.set(lags.length);
      behind.reset();
      // Two listeners may share a name: the metric shows the one further behind.
      const most = new Map<string, number>();
      for (const lag of lags) most.set(lag.listener, Math.max(most.get(lag.listener) ?? 0, lag.behind));
      for (const [listener, events] of most) behind.set({ listener }, events);
    },
  };
}

/** A counter with two labels, such as `relay_events_total` by source and disposition. */
interface Tally {
  count(first: string, second: string): void;
}

/** Counts what happens with every event, and updates the registry at each scrape. The registry's labeled counters cost five times as much. */
function createTally(registry: Registry, name: string, help: string, labelNames: readonly [string, string]): Tally {
  const counts = new Map<string, Map<string, number>>();
  const [firstLabel, secondLabel] = labelNames;
  new Counter({
    name,
    help,
    labelNames,
    registers: [registry],
    collect() {
      for (const [first, bySecond] of counts) {
        for (const [second, count] of bySecond) this.inc({ [firstLabel]: first, [secondLabel]: second }, count);
      }
      counts.clear();
    },
  });

  return {
    count(first, second) {
      let bySecond = counts.get(first);
      if (bySecond === undefined) {
        bySecond = new Map();
        counts.set(first, bySecond);
      }
      bySecond.set(second, (bySecond.get(second) ?? 0) + 1);
    },
  };
}
