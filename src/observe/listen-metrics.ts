import { Gauge, type Registry } from "@prometheus-io/client";

/** Metrics of those who listen, by name or place. */
export function createListenMetrics(registry: Registry) {
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
      // Two may listen under one name: the one further behind is shown.
      const most = new Map<string, number>();
      for (const lag of lags) most.set(lag.listener, Math.max(most.get(lag.listener) ?? 0, lag.behind));
      for (const [listener, events] of most) behind.set({ listener }, events);
    },
  };
}
