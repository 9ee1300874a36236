import type { BreakerState } from "../model/delivery.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { leaseName, readLeaseName, shardOf } from "../model/route-lease.ts";
import { comparableText } from "../model/secret.ts";
import { createLane, type Lane, type LaneParts, type LaneState, noNotes } from "./lane.ts";
import type { LeasedLanes, RouteLeases } from "./route-leases.ts";
import type { LaneSettings } from "./settings.ts";

export interface DispatcherParts extends LaneParts {
  /** Absent: this process delivers all routes. */
  readonly leases?: (lanes: LeasedLanes) => RouteLeases;
}

/** One lane per route or shard, so that a slow destination does not delay others. */
export function createDispatcher(
  routes: readonly LaneSettings[],
  { leases: leasesOf, ...given }: DispatcherParts,
) {
  // Until it is idle, a lane outlives the settings of its route: a new one would not know the
  // attempts in flight.
  const lanes = new Map<string, { lane: Lane; route: string; settings: string | null }>();
  let wanted = new Map<string, LaneSettings>();
  let sharded = new Map<string, number>();
  const leases = leasesOf?.({ begin: open, end });
  const parts: LaneParts =
    leases === undefined ? given : { ...given, takesOver: true, maySend: leases.maySend };

  /** At once where the store answers at once. */
  function open(name: string): MaybePromise<void> {
    const { route } = readLeaseName(name);
    const notes = parts.notesOf?.(route) ?? noNotes;
    const begin = (known: typeof noNotes): void => {
      const settings = wanted.get(name);
      if (settings === undefined || lanes.has(name)) return;
      lanes.set(name, {
        lane: createLane(settings, parts, known),
        route,
        settings: comparableText(settings),
      });
    };
    return notes instanceof Promise ? notes.then(begin) : begin(notes);
  }

  async function end(name: string, ms: number): Promise<void> {
    const lane = lanes.get(name)?.lane;
    await lane?.close(ms);
    if (lanes.get(name)?.lane === lane) lanes.delete(name);
  }

  /** Of a removed route. Where there are leases, the lane ends with its lease. */
  function idle(name: string): void {
    if (leases !== undefined) return;
    const lane = lanes.get(name)?.lane;
    lanes.delete(name);
    void lane?.close(0);
  }

  /** Added routes start; removed ones finish their attempts in flight and wait in the store. */
  function reload(next: readonly LaneSettings[]): void {
    // A process without leases delivers all lanes of a route.
    const shardsOf = ({ shards = 1 }: LaneSettings): number => (leases === undefined ? 1 : shards);
    const all = next.flatMap((settings) =>
      Array.from({ length: shardsOf(settings) }, (_, number) => ({
        ...settings,
        shard: { number, of: shardsOf(settings) },
      })),
    );
    wanted = new Map(all.map((settings) => [leaseName(settings.name, settings.shard), settings]));
    sharded = new Map(
      next
        .filter((settings) => shardsOf(settings) > 1)
        .map((settings) => [settings.name, shardsOf(settings)]),
    );
    for (const [name, settings] of wanted) {
      const described = comparableText(settings);
      const entry = lanes.get(name);
      if (entry === undefined) {
        if (leases === undefined) void open(name);
      } else if (entry.settings !== described) {
        entry.lane.reconfigure(settings);
        entry.settings = described;
      }
    }
    for (const [name, entry] of lanes) {
      if (wanted.has(name) || entry.settings === null) continue;
      entry.lane.suspend(() => idle(name));
      entry.settings = null;
    }
    leases?.want([...wanted.keys()]);
  }

  const lanesOf = (route: string): Lane[] =>
    [...lanes.values()].flatMap((entry) => (entry.route === route ? [entry.lane] : []));

  reload(routes);

  return {
    /** `at`: unix ms. */
    offer(
      due: readonly {
        readonly route: string;
        readonly event: number;
        readonly at: number;
        readonly lane: number;
      }[],
    ): void {
      for (const { route, event, at, lane } of due) {
        const of = sharded.get(route) ?? 1;
        const name = of === 1 ? route : leaseName(route, { number: shardOf(lane, of), of });
        lanes.get(name)?.lane.offer({ lane, event, at });
      }
    },
    reload,
    wake(route: string): void {
      for (const lane of lanesOf(route)) lane.wake();
    },
    tryNow: (route: string): boolean => lanesOf(route).filter((lane) => lane.tryNow()).length > 0,
    states(): ReadonlyMap<string, LaneState> {
      const states = new Map<string, LaneState>();
      for (const { lane, route, settings } of lanes.values()) {
        if (settings === null) continue;
        const other = states.get(route);
        states.set(route, other === undefined ? lane.state() : worse(other, lane.state()));
      }
      return states;
    },
    /** Attempts in flight may finish within `ms`, then they are handed back. */
    async close(ms: number): Promise<void> {
      if (leases === undefined)
        await Promise.all([...lanes.values()].map(({ lane }) => lane.close(ms)));
      else await leases.close(ms);
    },
  };
}

const severity: readonly BreakerState[] = ["closed", "half-open", "open"];

/** The state of the shard that is worse off, with the attempts of both. */
function worse(one: LaneState, other: LaneState): LaneState {
  const rank = ({ stopped, breaker, pausedUntil, failing }: LaneState): number =>
    (stopped === null ? 0 : 100) +
    severity.indexOf(breaker) * 10 +
    (pausedUntil === null ? 0 : 5) +
    (failing === null ? 0 : 1);
  return { ...(rank(one) >= rank(other) ? one : other), inFlight: one.inFlight + other.inFlight };
}
