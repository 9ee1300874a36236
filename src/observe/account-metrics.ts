import { Counter, Gauge, type Registry } from "@prometheus-io/client";

/** An account's limits, read at each scrape. */
export interface ServiceGauges {
  readonly account: string;
  readonly caps: readonly { readonly cap: string; readonly used: number; readonly limit: number; readonly held: boolean }[];
  readonly waiting: readonly { readonly priority: string; readonly calls: number }[];
  readonly stops: readonly { readonly reason: string; readonly inForce: boolean }[];
}

/** Metrics of calls to the messaging service, by account. */
export function createServiceMetrics(registry: Registry) {
  const registers = [registry];
  const calls = new Counter({
    name: "relay_service_calls_total",
    help: "Calls to the messaging service by what came of them",
    labelNames: ["account", "outcome"],
    registers,
  });
  const gauge = (name: string, help: string, label: string) => new Gauge({ name, help, labelNames: ["account", label], registers });
  const used = gauge("relay_service_slots_used", "Calls of the last minute and under way, by cap", "cap");
  const limit = gauge("relay_service_slots_limit", "The relay's share of the cap per minute", "cap");
  const held = gauge("relay_service_cap_held", "1 while a cap is held because the service answered 429", "cap");
  const waiting = gauge("relay_service_calls_waiting", "Calls waiting for their turn", "priority");
  const stopped = gauge("relay_service_stopped", "1 while calls are turned away without asking", "reason");

  function observe(services: readonly ServiceGauges[]): void {
    for (const metric of [used, limit, held, waiting, stopped]) metric.reset();
    for (const { account, caps, waiting: queues, stops } of services) {
      for (const { cap, ...slots } of caps) {
        used.set({ account, cap }, slots.used);
        limit.set({ account, cap }, slots.limit);
        held.set({ account, cap }, slots.held ? 1 : 0);
      }
      for (const { priority, calls: count } of queues) waiting.set({ account, priority }, count);
      for (const { reason, inForce } of stops) stopped.set({ account, reason }, inForce ? 1 : 0);
    }
  }

  return { calls, observe };
}

/** Metrics of polls and of missing webhooks, by account. */
export function createReconcileMetrics(registry: Registry) {
  const registers = [registry];
  return {
    asks: new Counter({
      name: "relay_reconcile_asks_total",
      help: "Questions about messages by what came of them",
      labelNames: ["account", "outcome"],
      registers,
    }),
    postponed: new Gauge({
      name: "relay_reconcile_left_for_budget",
      help: "Questions that were due at the last pass and postponed so that the quota lasts",
      labelNames: ["account"],
      registers,
    }),
    faulty: new Gauge({
      name: "relay_polls_faulty",
      help: "1 while the service answers all polls of messages with 404, another 4xx, or what cannot be read",
      labelNames: ["account"],
      registers,
    }),
    missed: new Counter({
      name: "relay_webhooks_missed_total",
      help: "Statuses learned by asking whose webhook did not come",
      labelNames: ["account"],
      registers,
    }),
    silence: new Gauge({ name: "relay_silence", help: "1 while webhooks are missing", labelNames: ["account"], registers }),
  };
}

/** Metrics of the hydration of truncated events, by account. */
export function createHydrationMetrics(registry: Registry) {
  const registers = [registry];
  const counter = (name: string, help: string, ...more: string[]) =>
    new Counter({ name, help, labelNames: ["account", ...more], registers });
  return {
    settled: counter("relay_hydrations_total", "Truncated events by how their hydration ended", "state"),
    sweeps: counter("relay_hydration_sweeps_total", "Sweeps ended"),
    asks: counter("relay_hydration_asks_total", "Messages asked about because of truncated events"),
    found: counter("relay_hydration_found_total", "News learned by that"),
  };
}
