import { Counter, type Registry } from "@prometheus-io/client";

/** Metrics of what the relay does about truncated events, by account. */
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
