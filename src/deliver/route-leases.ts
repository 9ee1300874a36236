import type { Clock } from "../model/clock.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import {
  type Lease,
  type LeaseStore,
  type LeaseTimes,
  type LeaseView,
  leaseTimes,
} from "../model/route-lease.ts";

export interface LeasedLanes {
  begin(route: string): MaybePromise<void>;
  /**
   * Attempts in flight may finish within `ms`. Resolves when the last one is settled or aborted.
   */
  end(route: string, ms: number): Promise<void>;
}

interface RouteLeasesParts {
  readonly worker: string;
  readonly store: LeaseStore;
  readonly clock: Pick<Clock, "after">;
  /** At least the milliseconds that have passed. */
  readonly elapsed: () => number;
  /** The leases of this worker, which settlements are compared with. */
  readonly held: Map<string, Lease>;
  readonly failed: (error: unknown) => void;
  readonly times?: LeaseTimes;
}

/** For attempts in flight, when a route moves to another worker. */
const moveMs = 10_000;

export type RouteLeases = ReturnType<typeof createRouteLeases>;

/*
 * Holds a fair share of the routes for this worker, for as long as its heartbeats are stored.
 *
 * | a route is | what happens | becomes |
 * |---|---|---|
 * | not held | it is in this worker's share, and no living worker has it | held: its lane begins |
 * | held | it is in the share of another worker | ending, for at most 10 s, then given back |
 * | held | another worker has its lease, or no heartbeat was stored before the deadline | ending at once: it is lost |
 * | ending | its last attempt is settled or aborted | not held |
 */
export function createRouteLeases(lanes: LeasedLanes, parts: RouteLeasesParts) {
  const { worker, store, clock, elapsed, held, failed, times = leaseTimes } = parts;
  let wanted: readonly string[] = [];
  /** Then all routes count as lost. */
  let deadline = Number.NEGATIVE_INFINITY;
  const { end, isEnding } = createEndings(lanes, parts);
  /** A process that never had a route of its own is no worker. */
  let isWorker = false;
  let isClosed = false;
  let looking: Promise<void> | null = null;
  let isWanted = false;
  let cancelLook = (): void => {};
  let cancelDeadline = (): void => {};

  function passDeadline(): void {
    const left = deadline - elapsed();
    if (left > 0) {
      cancelDeadline = clock.after(left, passDeadline);
      return;
    }
    for (const route of held.keys()) void end(route, 0, false);
  }

  async function look(): Promise<void> {
    const sentAt = elapsed();
    const view = await store.beat(worker, wanted, times.deadAfterMs);
    if (isClosed) return;
    // Before the deadline moves: what was lost while this process stood still must not begin again.
    for (const [route, lease] of held) {
      const now = view.leases.get(route);
      if (now?.holder !== lease.holder || now.epoch !== lease.epoch) void end(route, 0, false);
    }
    deadline = sentAt + times.deadlineMs;
    cancelDeadline();
    passDeadline();
    const share = shareRoutes(view);
    for (const route of held.keys())
      if (share.get(route) !== worker && !isEnding(route)) void end(route, moveMs, true);
    // The store was unavailable when they were to be given back.
    const left = [...view.leases].filter(
      ([route, { holder }]) => holder === worker && !held.has(route) && share.get(route) !== worker,
    );
    if (left.length > 0) await store.handBack(new Map(left));
    await take(
      wanted.filter(
        (route) => share.get(route) === worker && !held.has(route) && isFree(view, route),
      ),
    );
  }

  const isFree = ({ workers, leases }: LeaseView, route: string): boolean => {
    const holder = leases.get(route)?.holder;
    return holder === undefined || holder === worker || !workers.has(holder);
  };

  async function take(routes: readonly string[]): Promise<void> {
    if (routes.length === 0) return;
    const taken = await store.take(worker, routes, times.deadAfterMs);
    for (const [route, lease] of taken) held.set(route, lease);
    await Promise.all(
      [...taken.keys()].map(async (route) => {
        try {
          await lanes.begin(route);
          // An end that came before it found no lane.
          if (isEnding(route) || !held.has(route)) await lanes.end(route, 0);
        } catch (error) {
          failed(error);
          void end(route, 0, true);
        }
      }),
    );
  }

  /** One look at a time, and another one after it when something has changed meanwhile. */
  function lookSoon(): void {
    isWorker ||= wanted.length > 0;
    if (isClosed || !isWorker) return;
    if (looking !== null) {
      isWanted = true;
      return;
    }
    cancelLook();
    isWanted = false;
    looking = look()
      .catch(failed)
      .then(() => {
        looking = null;
        if (isClosed) return;
        if (isWanted) lookSoon();
        else cancelLook = clock.after(times.beatMs, lookSoon);
      });
  }

  return {
    want(routes: readonly string[]): void {
      wanted = routes;
      lookSoon();
    },
    /** Of a route that ends, no attempt begins, but those in flight may send. */
    maySend: (route: string): boolean => held.has(route) && elapsed() < deadline,
    async close(ms: number): Promise<void> {
      isClosed = true;
      cancelLook();
      const ends = () => Promise.all([...held.keys()].map((route) => end(route, ms, true)));
      const before = ends();
      // A look that began before may have taken routes since.
      await looking;
      await Promise.all([before, ends()]);
      cancelDeadline();
      if (isWorker) await store.leave(worker).catch(failed);
    },
  };
}

function createEndings(
  lanes: LeasedLanes,
  { store, held, failed }: Pick<RouteLeasesParts, "store" | "held" | "failed">,
) {
  const ending = new Map<string, Promise<void>>();

  /** `isGivenBack`: others may have the route at once. */
  function end(route: string, ms: number, isGivenBack: boolean): Promise<void> {
    const known = ending.get(route);
    if (known !== undefined && ms > 0) return known;
    const ended = finish(route, ms, isGivenBack).then(() => {
      if (ending.get(route) !== ended) return;
      // Not before: until then, what is settled is compared with the lease under which it was sent.
      held.delete(route);
      ending.delete(route);
    });
    ending.set(route, ended);
    return ended;
  }

  async function finish(route: string, ms: number, isGivenBack: boolean): Promise<void> {
    const lease = held.get(route);
    try {
      await lanes.end(route, ms);
      if (isGivenBack && lease !== undefined) await store.handBack(new Map([[route, lease]]));
    } catch (error) {
      failed(error);
    }
  }

  return { end, isEnding: (route: string): boolean => ending.has(route) };
}

/**
 * As even as settings and present leases allow. All workers compute the same from the same view,
 * and each does its own part.
 */
export function shareRoutes({ workers, leases }: LeaseView): ReadonlyMap<string, string> {
  const routesOf = new Map<string, Set<string>>(
    [...workers.keys()].toSorted().map((worker) => [worker, new Set()]),
  );
  const wanted = new Map([...workers].map(([worker, routes]) => [worker, new Set(routes)]));
  const free: string[] = [];
  for (const route of [...new Set([...workers.values()].flat())].toSorted()) {
    const holder = leases.get(route)?.holder ?? "";
    if (wanted.get(holder)?.has(route) === true) routesOf.get(holder)?.add(route);
    else free.push(route);
  }

  function poorest(route: string): string | null {
    let least: string | null = null;
    for (const [worker, routes] of routesOf)
      if (
        wanted.get(worker)?.has(route) === true &&
        (least === null || routes.size < sizeOf(least))
      )
        least = worker;
    return least;
  }
  const sizeOf = (worker: string): number => routesOf.get(worker)?.size ?? 0;

  for (const route of free) routesOf.get(poorest(route) ?? "")?.add(route);
  // A move makes the larger share smaller and the smaller one not larger than that, so the moves
  // end.
  for (let hasMoved = true; hasMoved; ) {
    hasMoved = false;
    const richest = [...routesOf].sort(([, one], [, other]) => other.size - one.size);
    for (const [, routes] of richest) {
      const route = [...routes].find(
        (each) => sizeOf(poorest(each) ?? "") <= routes.size - 2 && poorest(each) !== null,
      );
      if (route === undefined) continue;
      routes.delete(route);
      routesOf.get(poorest(route) ?? "")?.add(route);
      hasMoved = true;
      break;
    }
  }
  return new Map(
    [...routesOf].flatMap(([worker, routes]) =>
      [...routes].map((route) => [route, worker] as const),
    ),
  );
}
