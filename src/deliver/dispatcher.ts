import { createLane, type Lane, type LaneParts, type LaneState } from "./lane.ts";
import { describeLane, type LaneSettings } from "./settings.ts";

/** One lane per route, so that a slow destination does not delay others. */
export function createDispatcher(routes: readonly LaneSettings[], parts: LaneParts) {
  // A lane lives as long as the process: a new one would not know the attempts in flight.
  const lanes = new Map<string, { lane: Lane; settings: string | null }>();

  /** Applies the routes of new settings. Added ones start; removed ones finish their attempts in flight and wait in the store. */
  function reload(next: readonly LaneSettings[]): void {
    for (const settings of next) {
      const described = describeLane(settings);
      const entry = lanes.get(settings.name);
      if (entry === undefined) lanes.set(settings.name, { lane: createLane(settings, parts), settings: described });
      else if (entry.settings !== described) {
        entry.lane.reconfigure(settings);
        entry.settings = described;
      }
    }
    const names = new Set(next.map((settings) => settings.name));
    for (const [name, entry] of lanes) {
      if (names.has(name) || entry.settings === null) continue;
      entry.lane.suspend();
      entry.settings = null;
    }
  }

  reload(routes);

  return {
    /** Deliveries that were planned or released; `at` is unix ms. */
    offer(due: readonly { readonly route: string; readonly event: number; readonly at: number; readonly lane?: number }[]): void {
      for (const { route, event, at, lane = 0 } of due) lanes.get(route)?.lane.offer({ lane, event, at });
    },
    reload,
    wake: (route: string): void => lanes.get(route)?.lane.wake(),
    /** Ends the pause of the route's destination; true when there was one. */
    tryNow: (route: string): boolean => lanes.get(route)?.lane.tryNow() ?? false,
    states(): ReadonlyMap<string, LaneState> {
      const active = [...lanes].filter(([, { settings }]) => settings !== null);
      return new Map(active.map(([name, { lane }]) => [name, lane.state()]));
    },
    /** Starts nothing more. Attempts in flight may finish within `ms`, then they are handed back. */
    async close(ms: number): Promise<void> {
      await Promise.all([...lanes.values()].map(({ lane }) => lane.close(ms)));
    },
  };
}
