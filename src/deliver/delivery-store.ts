import type { Settlement, StoredDelivery } from "../event/stored-delivery.ts";

/** What the dispatcher needs of the store. Deliveries are named by route and the event's seq. */
export interface DeliveryStore {
  /** Runs several reads as one, which costs the locks of one. `run` must not wait for anything. */
  reading<T>(run: () => T): T;
  /** Events of waiting deliveries due at `now` (unix ms), soonest first. */
  due(route: string, now: number, limit: number): number[];
  /** Unix ms at which the next waiting delivery becomes due after `now`; null when none will. */
  nextDueAt(route: string, now: number): number | null;
  /** The delivery, when it is still waiting. */
  load(route: string, event: number): StoredDelivery | null;
  /** Resolves, once it is durable, with the event of the delivery this one held back, if any. */
  settle(settlement: Settlement): Promise<number | null>;
  /** Why the route's destination is stopped; null when it is not. */
  stopReason(route: string): string | null;
}
