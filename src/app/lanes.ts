import { noNotes } from "../deliver/lane.ts";
import { createReadyQueue, type DeliveryStore } from "../deliver/ready-queue.ts";
import { createRouteLeases } from "../deliver/route-leases.ts";
import { type Clock, createElapsed } from "../model/clock.ts";
import type { RouteNotes } from "../model/delivery.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { Lease, LeaseStore } from "../model/route-lease.ts";
import type { Engine } from "./engine.ts";

interface QueueStore extends DeliveryStore {
  notesOf(routes: readonly string[]): MaybePromise<readonly RouteNotes[]>;
}

/** The lanes of a process that delivers all routes. */
export function lanesOf(store: QueueStore, clock: Clock, isShared = false): Pick<Engine["lanes"], "queueOf" | "notesOf"> {
  return {
    queueOf: (route, lane, shard) => createReadyQueue(route, lane, { store, clock, isShared, shard }),
    notesOf(route) {
      const notes = store.notesOf([route]);
      return notes instanceof Promise ? notes.then(([one]) => one ?? noNotes) : (notes[0] ?? noNotes);
    },
  };
}

interface LeasedParts {
  readonly store: QueueStore & { readonly leases: LeaseStore };
  readonly clock: Clock;
  /** A name that no other process has or had. */
  readonly worker: string;
  /** The leases of this process, as the commands of its store see them. */
  readonly held: Map<string, Lease>;
  readonly failed: (error: unknown) => void;
}

export function leasedLanes({ store, clock, worker, held, failed }: LeasedParts): Engine["lanes"] {
  const elapsed = createElapsed(Date.now, () => performance.now());
  return {
    ...lanesOf(store, clock, true),
    leases: (lanes) => createRouteLeases(lanes, { worker, store: store.leases, clock, elapsed, held, failed }),
  };
}
