import type { Clock } from "../model/clock.ts";
import type { Settlement, StoredDelivery } from "../model/delivery.ts";
import type { DeliveryQueue } from "./delivery-queue.ts";

/** What the queue needs of the store. Deliveries are named by route and the event's seq. */
export interface DeliveryStore {
  /** Runs several reads under one lock. `run` must be synchronous. */
  reading<T>(run: () => T): T;
  /** Events of waiting deliveries due at `now` (unix ms), soonest first. */
  due(route: string, now: number, limit: number): number[];
  /** Unix ms at which the next waiting delivery becomes due after `now`; null when none waits. */
  nextDueAt(route: string, now: number): number | null;
  /** The delivery; null when it is not waiting any more. */
  load(route: string, event: number): StoredDelivery | null;
  /** Resolves, once it is durable, with the event of the delivery this one held back, if any. */
  settle(settlement: Settlement): Promise<number | null>;
  /** Why the route's destination is stopped; null when it is not. */
  stopReason(route: string): string | null;
}

/** Due deliveries whose numbers are in memory, per route. */
const windowSize = 512;

/**
 * The queue of a route over the store of this process. The store has all waiting deliveries; the queue has a window of
 * those due now. A number is in the window, in flight (started, not yet settled), or only in the store.
 */
export function createReadyQueue(route: string, store: DeliveryStore, clock: Clock): DeliveryQueue {
  const window: number[] = [];
  /** In the window or in flight: not to be read from the store again. */
  const known = new Set<number>();
  /** True when the store may have due deliveries that are not in the window. */
  let more = true;
  /** When the next delivery outside the window becomes due, as far as known. */
  let dueAt: number | null = null;
  let stop = store.stopReason(route);

  function expect(at: number): void {
    if (dueAt === null || at < dueAt) dueAt = at;
  }

  function refill(now: number): void {
    const limit = windowSize + known.size;
    const events = store.due(route, now, limit);
    for (const event of events) {
      if (known.has(event) || window.length >= windowSize) continue;
      window.push(event);
      known.add(event);
    }
    more = events.length === limit;
    dueAt = more ? null : store.nextDueAt(route, now);
  }

  function offer(event: number, at: number): void {
    if (at > clock.now()) expect(at);
    else if (more || window.length >= windowSize) more = true;
    else if (!known.has(event)) {
      window.push(event);
      known.add(event);
    }
  }

  return {
    look: store.reading,
    peek(now) {
      for (;;) {
        if (window.length === 0 && (more || (dueAt !== null && dueAt <= now))) refill(now);
        const event = window[0];
        if (event === undefined) return null;
        const delivery = store.load(route, event);
        if (delivery !== null) return delivery;
        // It does not wait any more.
        window.shift();
        known.delete(event);
      }
    },
    start() {
      window.shift();
    },
    async settle(settlement) {
      const { event, settled, at } = settlement;
      if (settlement.stop !== undefined) stop = settlement.stop;
      const released = await store.settle(settlement);
      known.delete(event);
      if (settled.to === "waiting") expect(settled.nextAt);
      if (released !== null) offer(released, at);
    },
    putBack(event) {
      known.delete(event);
      more = true;
    },
    rest() {},
    offer,
    lookAgain() {
      stop = store.stopReason(route);
      more = true;
    },
    nextDueAt: () => dueAt,
    stopReason: () => stop,
    async close() {},
  };
}
