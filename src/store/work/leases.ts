import type { Work } from "../sql/ops.ts";
import { create, put, values } from "./state.ts";

/*
 * A worker leases routes, not deliveries. What it holds, it runs as the only process of a SQLite file does. On PostgreSQL a
 * lease is a row of `state` with its holder and an epoch, and is good while the holder's heartbeat is fresh. All times are
 * of the database's clock, because the clocks of hosts differ.
 */

/** The lease of a route. `epoch` grows with each holder. */
export interface Lease {
  readonly holder: string;
  readonly epoch: number;
}

/** The leases that a process has, by route. Null: it is the only one and needs none. */
export type Held = ReadonlyMap<string, Lease> | null;

/** The holder of a lease that was given back. Its row stays, so that no epoch is used twice. */
const nobody = "";

const leaseKey = (route: string): string => `lease/${route}`;
const heartbeatKey = (worker: string): string => `worker/${worker}`;

/**
 * Which of the routes are another's now. The rows stay locked until the end of the transaction, and a takeover changes them
 * before it reads the queue: so nothing is settled after the new holder has read it.
 */
export function* lostRoutes(routes: readonly string[], held: NonNullable<Held>): Work<ReadonlySet<string>> {
  const sorted = routes.toSorted();
  const leases = yield* values<Lease>(sorted.map(leaseKey), "share");
  return new Set(sorted.filter((route, place) => !isSame(leases[place] ?? null, held.get(route))));
}

const isSame = (a: Lease | null, b: Lease | undefined): boolean =>
  a !== null && b !== undefined && a.holder === b.holder && a.epoch === b.epoch;

/** Shows that a worker lives. */
export function* beat(worker: string, now: number): Work<void> {
  yield* put(heartbeatKey(worker), { at: now });
}

/**
 * Leases a route to `worker`. Null: another worker has it, whose heartbeat is younger than `deadAfter` (ms), the time after
 * which it has stopped sending for certain. Read the queue only once this is committed.
 */
export function* takeLease(route: string, worker: string, now: number, deadAfter: number): Work<Lease | null> {
  const [lease = null] = yield* values<Lease>([leaseKey(route)], "update");
  if (lease?.holder === worker) return lease;
  if (lease !== null && lease.holder !== nobody) {
    const [heartbeat = null] = yield* values<{ readonly at: number }>([heartbeatKey(lease.holder)]);
    if (heartbeat !== null && now - heartbeat.at < deadAfter) return null;
  }
  const taken = { holder: worker, epoch: (lease?.epoch ?? 0) + 1 };
  if (lease === null) yield* create(leaseKey(route), taken);
  else yield* put(leaseKey(route), taken);
  return taken;
}

/** Gives a lease back, after the last attempt of the route was settled or aborted. */
export function* handBack(route: string, lease: Lease): Work<void> {
  const [stored = null] = yield* values<Lease>([leaseKey(route)], "update");
  if (isSame(stored, lease)) yield* put(leaseKey(route), { ...lease, holder: nobody });
}
