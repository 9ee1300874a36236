/*
 * A worker leases routes, not deliveries. What it holds, it runs as the only process of a SQLite file does. The times keep
 * two workers apart: the holder begins no attempt and aborts those in flight `deadlineMs` after it sent its last heartbeat
 * that was stored, and others take its routes `deadAfterMs` after that heartbeat. Both last longer than they should at most:
 * the holder counts from before the request, and others from when the database got it.
 */

/** The lease of a route. `epoch` grows with each holder. */
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

/** What a worker reads after its heartbeat. */
export interface LeaseView {
  /** Those that live, with the routes of their settings. */
  readonly workers: ReadonlyMap<string, readonly string[]>;
  /** By route. A holder that does not live has lost its lease to whoever takes it. */
  readonly leases: ReadonlyMap<string, Lease>;
}

/** The leases in the store. Each call is one transaction, and its times are of the database's clock. */
export interface LeaseStore {
  /** Shows that a worker lives and which routes its settings have. */
  beat(worker: string, routes: readonly string[], deadAfterMs: number): Promise<LeaseView>;
  /** Those of the routes that were free or a dead worker's. Read their queues only afterwards. */
  take(worker: string, routes: readonly string[], deadAfterMs: number): Promise<ReadonlyMap<string, Lease>>;
  /** Gives leases back, after the last attempt of each route was settled or aborted. */
  handBack(leases: ReadonlyMap<string, Lease>): Promise<void>;
  /** The worker ends, and has given back its leases. */
  leave(worker: string): Promise<void>;
}
