import type { DuePlaces, DueRange, QueuedDelivery, QueueKey, SettledOutcome, Settling } from "../model/delivery.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";

/** What the queue needs of the store. A SQLite file answers its reads at once, PostgreSQL later. */
export interface DeliveryStore {
  due(range: DueRange): MaybePromise<DuePlaces>;
  /** Those of the deliveries that still wait, in the order of `keys`. */
  load(route: string, keys: readonly QueueKey[]): MaybePromise<readonly QueuedDelivery[]>;
  /** Resolves once it is durable. */
  settle(settling: Settling): Promise<SettledOutcome>;
  /** Why the route's destination is stopped; null when it is not. */
  stopReason(route: string): MaybePromise<string | null>;
}

/** The queue's port to its lane. */
export interface QueueLane {
  /** There may be something to start, or the stop has changed. */
  wake(): void;
  /** A call to the store failed; the queue retries by itself. */
  failed(error: unknown): void;
  /** How many more deliveries could start now. */
  room(): number;
  /** How many deliveries are worth buffering beyond `room`. */
  mostAhead(): number;
}
