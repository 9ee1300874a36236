/*
 * A worker leases routes, not deliveries. What it holds, it runs as the only process of a SQLite
 * file does. The times keep two workers apart: the holder begins no attempt and aborts those in
 * flight `deadlineMs` after it sent its last heartbeat that was stored, and others take its routes
 * `deadAfterMs` after that heartbeat. Both last longer than they should at most: the holder counts
 * from before the request, and others from when the database got it.
 */

/** A part of the lanes of a route, which one worker delivers: `number` from 0 to `of` - 1. */
export interface Shard {
  readonly number: number;
  readonly of: number;
}

export const wholeRoute: Shard = { number: 0, of: 1 };

/** How a lease of a route, or of a shard of it, is named. No route has a name with `#`. */
export const leaseName = (route: string, { number, of }: Shard): string =>
  of === 1 ? route : `${route}#${number}/${of}`;

export function readLeaseName(name: string): { readonly route: string; readonly shard: Shard } {
  const [, route, number, of] = /^(.*)#(\d+)\/(\d+)$/.exec(name) ?? [];
  return route === undefined
    ? { route: name, shard: wholeRoute }
    : { route, shard: { number: Number(number), of: Number(of) } };
}

/**
 * The number of the shard that has a lane. Statements compute the same (`store/work/attempts.ts`).
 */
export const shardOf = (lane: number, of: number): number =>
  Math.floor((((Math.abs(lane) % 65_536) * 40_503) % 65_536) / 256) % of;

/** The lease of a route or shard. `epoch` grows with each holder. */
export interface Lease {
  readonly holder: string;
  readonly epoch: number;
}

export interface LeaseTimes {
  readonly beatMs: number;
  readonly deadlineMs: number;
  readonly deadAfterMs: number;
}

export const leaseTimes: LeaseTimes = { beatMs: 2_000, deadlineMs: 6_000, deadAfterMs: 10_000 };

export interface LeaseView {
  /** Those that live, with the routes and shards of their settings. */
  readonly workers: ReadonlyMap<string, readonly string[]>;
  /** By route. A holder that does not live has lost its lease to whoever takes it. */
  readonly leases: ReadonlyMap<string, Lease>;
}

export interface LeaseStore {
  beat(worker: string, routes: readonly string[], deadAfterMs: number): Promise<LeaseView>;
  /** Those of the routes that were free or a dead worker's. Read their queues only afterwards. */
  take(
    worker: string,
    routes: readonly string[],
    deadAfterMs: number,
  ): Promise<ReadonlyMap<string, Lease>>;
  /** Gives leases back, after the last attempt of each route was settled or aborted. */
  handBack(leases: ReadonlyMap<string, Lease>): Promise<void>;
  leave(worker: string): Promise<void>;
}
