import type { Settlement, StoredDelivery } from "../event/stored-delivery.ts";

/**
 * Which delivery of a route goes next: all that a lane knows of the store. Two are made of it, one over a store
 * in this process (`ready-queue.ts`) and one over a store that many processes claim from (`claim-queue.ts`).
 */
export interface DeliveryQueue {
  /** Runs several `peek`s and `start`s as one, which may cost less. `run` must not wait for anything. */
  look(run: () => void): void;
  /** The next delivery due at `now` (unix ms); null when none is at hand: the lane is woken when one comes, or at `nextDueAt`. */
  peek(now: number): StoredDelivery | null;
  /** Takes the peeked one out: its attempt starts. `settle` or `putBack` must follow. */
  start(): void;
  /** Writes what came of the attempt; resolves once it is durable. It may be called again after it rejected. */
  settle(settlement: Settlement): Promise<void>;
  /** The attempt did not count: the delivery waits as before. */
  putBack(event: number): void;
  /** Nothing will be started for a while: what was taken ahead goes back, until the next `peek`. */
  rest(): void;
  /** A delivery becomes due at `at` (unix ms). */
  offer(event: number, at: number): void;
  /** The store was changed by somebody else. */
  lookAgain(): void;
  /** Unix ms at which `peek` is worth another look; null: not before the lane is woken or something is offered. */
  nextDueAt(): number | null;
  /** Why the destination is stopped; null when it is not. */
  stopReason(): string | null;
  /** Ends it, after the last attempt was settled or put back. */
  close(): Promise<void>;
}

/** What a queue may ask of its lane, and tell it. */
export interface QueueLane {
  /** There may be something to start, or the stop has changed. */
  wake(): void;
  /** The store could not be asked; the queue tries again by itself. */
  failed(error: unknown): void;
  /** How many more deliveries could start now. */
  room(): number;
  /** Most deliveries worth having at hand beyond `room`. */
  mostAhead(): number;
}

export type QueueOf = (route: string, lane: QueueLane) => DeliveryQueue;
