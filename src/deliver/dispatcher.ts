import type { MaybePromise } from "../model/maybe-promise.ts";
import { createLane, type Lane, type LaneParts, type LaneState, noNotes } from "./lane.ts";
import type { LeasedLanes, RouteLeases } from "./route-leases.ts";
import { describeLane, type LaneSettings } from "./settings.ts";

export interface DispatcherParts extends LaneParts {
  /** Which routes this process delivers. Absent: all of them. */
  readonly leases?: (lanes: LeasedLanes) => RouteLeases;
}

/** One lane per route, so that a slow destination does not delay others. */
export function createDispatcher(routes: readonly LaneSettings[], { leases: leasesOf, ...given }: DispatcherParts) {
  // While it is open, a lane outlives the settings of its route: a new one would not know the attempts in flight.
  const lanes = new Map<string, { lane: Lane; settings: string | null }>();
  let wanted = new Map<string, LaneSettings>();
  const leases = leasesOf?.({ begin: open, end });
  const parts: LaneParts = leases === undefined ? given : { ...given, takesOver: true, maySend: leases.maySend };

  /** At once where what is stored of the route is read at once. */
  function open(route: string): MaybePromise<void> {
    const notes = parts.notesOf?.(route) ?? noNotes;
    const begin = (known: typeof noNotes): void => {
      const settings = wanted.get(route);
      if (settings === undefined || lanes.has(route)) return;
      lanes.set(route, { lane: createLane(settings, parts, known), settings: describeLane(settings) });
    };
    return notes instanceof Promise ? notes.then(begin) : begin(notes);
  }

  async function end(route: string, ms: number): Promise<void> {
    const lane = lanes.get(route)?.lane;
    await lane?.close(ms);
    if (lanes.get(route)?.lane === lane) lanes.delete(route);
  }

  /** Applies the routes of new settings. Added ones start; removed ones finish their attempts in flight and wait in the store. */
  function reload(next: readonly LaneSettings[]): void {
    wanted = new Map(next.map((settings) => [settings.name, settings]));
    for (const settings of next) {
      const described = describeLane(settings);
      const entry = lanes.get(settings.name);
      if (entry === undefined) {
        if (leases === undefined) void open(settings.name);
      } else if (entry.settings !== described) {
        entry.lane.reconfigure(settings);
        entry.settings = described;
      }
    }
    for (const [name, entry] of lanes) {
      if (wanted.has(name) || entry.settings === null) continue;
      entry.lane.suspend();
      entry.settings = null;
    }
    leases?.want([...wanted.keys()]);
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
    /** Of the routes that this process delivers. */
    states(): ReadonlyMap<string, LaneState> {
      const active = [...lanes].filter(([, { settings }]) => settings !== null);
      return new Map(active.map(([name, { lane }]) => [name, lane.state()]));
    },
    /** Starts nothing more. Attempts in flight may finish within `ms`, then they are handed back. */
    async close(ms: number): Promise<void> {
      if (leases === undefined) await Promise.all([...lanes.values()].map(({ lane }) => lane.close(ms)));
      else await leases.close(ms);
    },
  };
}
