import { conditionOf, conditions } from "../model/attention.ts";
import type { Attention } from "../model/overview.ts";
import type { Combine, Maker } from "./maker.ts";

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

const breakerNumber = { closed: 0, "half-open": 1, open: 2 };

/** Metrics of what is so at a scrape. */
export function createGauges({ gauge }: Pick<Maker, "gauge">) {
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

  return ({ attention, routes, services, sources, listeners, requestsInFlight, storing, now }: Gauges): void => {
    observeAttention(attention);
    sourceInfo.reset();
    for (const source of sources) sourceInfo.set(source, 1);
    observeRoutes(routes, now);
    observeAccounts(services);
    observeListeners(listeners);
    up.inFlight.set(requestsInFlight);
    up.storing.set(Number(storing));
  };
}

function secondsBetween(from: number | null, to: number): number {
  return from === null ? 0 : Math.max(0, (to - from) / 1000);
}
