import type { QueuePlace, Settlement, StoredDelivery } from "../model/delivery.ts";
import type { Shard } from "../model/route-lease.ts";

/**
 * Which delivery of a route goes next: the lane's port to the store. There are two, one over a store of this process
 * (`ready-queue.ts`) and one over a store that many processes claim from (`claim-queue.ts`).
 */
export interface DeliveryQueue {
  /** Runs several `peek`s and `start`s as one batch, which may cost less. `run` must be synchronous. */
  look(run: () => void): void;
  /** The next delivery due at `now` (unix ms); null when none is buffered. The lane is woken when one comes, or at `nextDueAt`. */
  peek(now: number): StoredDelivery | null;
  /** Takes out the peeked delivery, whose attempt starts. `settle` or `putBack` must follow. */
  start(): void;
  /** Writes the outcome of the attempt; resolves once it is durable. May be called again after it rejected. */
  settle(settlement: Settlement): Promise<void>;
  /** The attempt did not count: the delivery waits as before. */
  putBack(event: number): void;
  /** Nothing starts for a while: hands back what was claimed ahead, until the next `peek`. */
  rest(): void;
  /** A delivery becomes due. */
  offer(place: QueuePlace): void;
  /** The store was changed from outside this lane. */
  lookAgain(): void;
  /** Unix ms at which to `peek` again; null: not before the lane is woken or something is offered. */
  nextDueAt(): number | null;
  /** Why the destination is stopped; null when it is not. */
  stopReason(): string | null;
  /** Closes the queue, after the last attempt was settled or put back. */
  close(): Promise<void>;
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

/** `stopped`: why the destination is stopped when the queue begins. */
export type QueueOf = (route: string, lane: QueueLane, stopped: string | null, shard: Shard) => DeliveryQueue;
