import { noNotes } from "../deliver/lane.ts";
import { createReadyQueue, type DeliveryStore } from "../deliver/ready-queue.ts";
import type { Clock } from "../model/clock.ts";
import type { RouteNotes } from "../model/delivery.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
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
