import type { Lease, LeaseView } from "../../model/route-lease.ts";
import type { Work } from "../sql/ops.ts";
import { create, list, put, values } from "./state.ts";

/*
 * On PostgreSQL a lease is a row of `state` with its holder and an epoch, and is good while the holder's heartbeat is fresh.
 * All times are of the database's clock, because the clocks of hosts differ. A takeover locks the lease and then the
 * heartbeat, so that a heartbeat is either seen by it, or sees it.
 */
export type { Lease } from "../../model/route-lease.ts";

/** The leases that a process has, by route. Null: it is the only one and needs none. */
export type Held = ReadonlyMap<string, Lease> | null;

/** The holder of a lease that was given back. Its row stays, so that no epoch is used twice. */
const nobody = "";

const leases = "lease/";
const heartbeats = "worker/";
const leaseKey = (route: string): string => `${leases}${route}`;
const heartbeatKey = (worker: string): string => `${heartbeats}${worker}`;

/** Heartbeats of workers that died go with retention. */
const forgottenAfterMs = 86_400_000;

interface Heartbeat {
  readonly at: number;
  readonly routes: readonly string[];
}

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

/** Shows that a worker lives, and which routes its settings have. */
export function* beat(worker: string, now: number, routes: readonly string[] = []): Work<void> {
  yield* put(heartbeatKey(worker), { at: now, routes } satisfies Heartbeat, now + forgottenAfterMs);
}

/** Who lives and holds what. Read it after a heartbeat, in the same transaction. */
export function* readLeases(now: number, deadAfter: number): Work<LeaseView> {
  const workers = new Map<string, readonly string[]>();
  for (const { name, value } of yield* list<Heartbeat>(heartbeats)) if (now - value.at < deadAfter) workers.set(name, value.routes);
  return { workers, leases: new Map((yield* list<Lease>(leases)).map(({ name, value }) => [name, value])) };
}

/**
 * Leases a route to `worker`. Null: another worker has it, whose heartbeat is younger than `deadAfter` (ms), the time after
 * which it has stopped sending for certain. Read the queue only once this is committed.
 */
export function* takeLease(route: string, worker: string, now: number, deadAfter: number): Work<Lease | null> {
  const [lease = null] = yield* values<Lease>([leaseKey(route)], "update");
  if (lease?.holder === worker) return lease;
  if (lease !== null && lease.holder !== nobody) {
    const [heartbeat = null] = yield* values<Heartbeat>([heartbeatKey(lease.holder)], "share");
    if (heartbeat !== null && now - heartbeat.at < deadAfter) return null;
  }
  const taken = { holder: worker, epoch: (lease?.epoch ?? 0) + 1 };
  if (lease === null) yield* create(leaseKey(route), taken);
  else yield* put(leaseKey(route), taken);
  return taken;
}

/** Those of the routes that {@link takeLease} gives, in one order, so that two workers do not wait for each other. */
export function* takeLeases(routes: readonly string[], worker: string, now: number, deadAfter: number): Work<Map<string, Lease>> {
  const taken = new Map<string, Lease>();
  for (const route of routes.toSorted()) {
    const lease = yield* takeLease(route, worker, now, deadAfter);
    if (lease !== null) taken.set(route, lease);
  }
  return taken;
}

/** Gives a lease back, after the last attempt of the route was settled or aborted. */
export function* handBack(route: string, lease: Lease): Work<void> {
  const [stored = null] = yield* values<Lease>([leaseKey(route)], "update");
  if (isSame(stored, lease)) yield* put(leaseKey(route), { ...lease, holder: nobody });
}

/** The worker ends, and has given back its leases. */
export function* leave(worker: string): Work<void> {
  yield* put(heartbeatKey(worker), null);
}
