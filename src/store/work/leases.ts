import {
  type Lease,
  type LeaseStore,
  type LeaseView,
  readLeaseName,
} from "../../model/route-lease.ts";
import { compareTexts, rows, type Work } from "../sql/ops.ts";
import { sql } from "../sql/sql.ts";
import { byName, create, hold, isHeld, list, put, readNow, value, values } from "./state.ts";

/*
 * On PostgreSQL a lease is a row with its holder and an epoch, good while the holder's heartbeat is
 * fresh by the database's clock. A takeover locks the lease and then the heartbeat, so that a
 * heartbeat is either seen by it, or sees it.
 */

/** Null: the only process, which needs none. */
export type Held = ReadonlyMap<string, Lease> | null;

/** The row of a lease that was given back stays, so that no epoch is used twice. */
const nobody = "";

const leases = "lease/";
const heartbeats = "worker/";
const leaseKey = (route: string): string => `${leases}${route}`;
const heartbeatKey = (worker: string): string => `${heartbeats}${worker}`;

const forgottenAfterMs = 86_400_000;

interface Heartbeat {
  readonly at: number;
  readonly routes: readonly string[];
}

/**
 * The rows stay locked, and a takeover changes them before it reads the queue: nothing is settled
 * after the new holder has read it.
 */
export function* lostLeases(
  names: readonly string[],
  held: NonNullable<Held>,
): Work<ReadonlySet<string>> {
  const sorted = names.toSorted();
  const leases = yield* values<Lease>(sorted.map(leaseKey), "share");
  return new Set(sorted.filter((name, place) => !isSame(leases[place] ?? null, held.get(name))));
}

const isSame = (a: Lease | null, b: Lease | undefined): boolean =>
  a !== null && b !== undefined && a.holder === b.holder && a.epoch === b.epoch;

export function* beat(worker: string, now: number, routes: readonly string[] = []): Work<void> {
  yield* put(heartbeatKey(worker), { at: now, routes } satisfies Heartbeat, now + forgottenAfterMs);
}

/** Read it after a heartbeat, in the same transaction. */
export function* readLeases(now: number, deadAfter: number): Work<LeaseView> {
  const workers = new Map<string, readonly string[]>();
  for (const { name, value } of yield* list<Heartbeat>(heartbeats))
    if (now - value.at < deadAfter) workers.set(name, value.routes);
  return { workers, leases: yield* byName<Lease>(leases) };
}

/**
 * Null: another worker has it, whose heartbeat is younger than `deadAfter` (ms), or the route for
 * another number of shards. After that time it has stopped sending. Read the queue only once this
 * is committed.
 */
export function* takeLease(
  name: string,
  worker: string,
  now: number,
  deadAfter: number,
): Work<Lease | null> {
  const { route, shard } = readLeaseName(name);
  // A takeover of a part locks the row of the whole route first.
  const whole = yield* value<Lease>(leaseKey(route), "update");
  if (whole === null && shard.of > 1)
    yield* create(leaseKey(route), { holder: nobody, epoch: 0 } satisfies Lease);
  const lease = shard.of === 1 ? whole : yield* value<Lease>(leaseKey(name), "update");
  if (lease?.holder === worker) return lease;
  if (lease !== null && (yield* isAlive(lease.holder, now, deadAfter))) return null;
  const others = yield* otherLeases(route, shard.of);
  for (const { value } of others) if (yield* isAlive(value.holder, now, deadAfter)) return null;
  // What a dead worker still settles is compared with its lease.
  for (const { key, value } of others)
    yield* put(key, { holder: nobody, epoch: value.epoch + 1 } satisfies Lease);
  const taken = { holder: worker, epoch: (lease?.epoch ?? 0) + 1 };
  if (lease === null) yield* create(leaseKey(name), taken);
  else yield* put(leaseKey(name), taken);
  return taken;
}

function* isAlive(holder: string, now: number, deadAfter: number): Work<boolean> {
  if (holder === nobody) return false;
  const heartbeat = yield* value<Heartbeat>(heartbeatKey(holder), "share");
  return heartbeat !== null && now - heartbeat.at < deadAfter;
}

function* otherLeases(
  route: string,
  of: number,
): Work<{ readonly key: string; readonly value: Lease }[]> {
  // "$" follows "#".
  const found = yield* rows(
    sql<{ key: string }>`SELECT s.key FROM state s
      WHERE s.key = ${leaseKey(route)} OR (s.key >= ${leaseKey(`${route}#`)} AND s.key < ${leaseKey(`${route}$`)}) ORDER BY s.key`,
  );
  const keys = found.map(({ key }) => key).filter((key) => readLeaseName(key).shard.of !== of);
  const others = yield* values<Lease>(keys, "update");
  return keys.flatMap((key, place) => {
    const value = others[place] ?? null;
    return value === null || value.holder === nobody ? [] : [{ key, value }];
  });
}

/** In one order, so that two workers do not wait for each other. */
export function* takeLeases(
  routes: readonly string[],
  worker: string,
  now: number,
  deadAfter: number,
): Work<Map<string, Lease>> {
  const taken = new Map<string, Lease>();
  for (const route of routes.toSorted()) {
    const lease = yield* takeLease(route, worker, now, deadAfter);
    if (lease !== null) taken.set(route, lease);
  }
  return taken;
}

export function* handBack(route: string, lease: Lease): Work<void> {
  const stored = yield* value<Lease>(leaseKey(route), "update");
  if (isSame(stored, lease)) yield* put(leaseKey(route), { ...lease, holder: nobody });
}

const leave = (worker: string) => put(heartbeatKey(worker), null);

export interface Process {
  readonly id: string;
  readonly isAlone: boolean;
}

const callerKey = (id: string): string => `caller/${id}`;
const leaderKey = (name: string): string => `leader/${name}`;

/**
 * A stalled process can find that another does the same work: no guarantee rests on a leader lease.
 */
export const holdLease = (name: string, forMs: number, { id }: Process) =>
  hold(leaderKey(name), id, forMs);

export function* noteCalling(forMs: number, { id, isAlone }: Process): Work<void> {
  if (!isAlone) yield* hold(callerKey(id), id, forMs);
}

/** The outcome of a call that such a process did not end is unknown. */
export function* goneOf(
  ids: readonly string[],
  { id: own, isAlone }: Process,
): Work<ReadonlySet<string>> {
  const gone = new Set<string>();
  for (const id of new Set(ids))
    if (id !== own && (isAlone || !(yield* isHeld(callerKey(id))))) gone.add(id);
  return gone;
}

export function* leaveProcess({ id }: Process): Work<void> {
  yield* rows(sql`DELETE FROM state WHERE key = ${callerKey(id)}`);
  yield* rows(
    sql`DELETE FROM state WHERE key >= ${leaderKey("")} AND key < ${"leader0"} AND value = ${JSON.stringify(id)}`,
  );
}

export function createLeaseStore(write: <T>(make: () => Work<T>) => Promise<T>): LeaseStore {
  return {
    beat: (worker, routes, deadAfterMs) =>
      write(function* () {
        const now = yield* readNow();
        yield* beat(worker, now, routes);
        return yield* readLeases(now, deadAfterMs);
      }),
    take: (worker, routes, deadAfterMs) =>
      write(function* () {
        return yield* takeLeases(routes, worker, yield* readNow(), deadAfterMs);
      }),
    handBack: (leases) =>
      write(function* () {
        for (const [route, lease] of [...leases].sort(([one], [other]) => compareTexts(one, other)))
          yield* handBack(route, lease);
      }),
    leave: (worker) => write(() => leave(worker)),
  };
}
