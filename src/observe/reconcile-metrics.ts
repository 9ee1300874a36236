import { Counter, Gauge, type Registry } from "@prometheus-io/client";

/** Metrics of asking the service about messages, and of webhooks that do not come, by account. */
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
