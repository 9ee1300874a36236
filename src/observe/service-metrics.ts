import { Counter, Gauge, type Registry } from "@prometheus-io/client";

/** What is shown of an account's limits at each scrape. */
export interface ServiceGauges {
  readonly account: string;
  readonly caps: readonly { readonly cap: string; readonly used: number; readonly limit: number; readonly held: boolean }[];
  readonly waiting: readonly { readonly priority: string; readonly calls: number }[];
  readonly stops: readonly { readonly reason: string; readonly inForce: boolean }[];
}

/** Metrics of the calls to the messaging service, by account. */
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
    for (const { account, caps, waiting: lines, stops } of services) {
      for (const { cap, ...slots } of caps) {
        used.set({ account, cap }, slots.used);
        limit.set({ account, cap }, slots.limit);
        held.set({ account, cap }, slots.held ? 1 : 0);
      }
      for (const { priority, calls: count } of lines) waiting.set({ account, priority }, count);
      for (const { reason, inForce } of stops) stopped.set({ account, reason }, inForce ? 1 : 0);
    }
  }

  return { calls, observe };
}
