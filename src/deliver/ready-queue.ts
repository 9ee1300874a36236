import type { Clock } from "../event/clock.ts";
import type { Settlement, StoredDelivery } from "../event/stored-delivery.ts";
import type { DeliveryQueue } from "./delivery-queue.ts";

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

/** Most numbers of due deliveries in memory for one route. */
const windowSize = 512;

/**
 * The queue of a route over the store of this process. The store knows all that wait; here is a window
 * of those due now. A number is in one of three places: in the window, under way (started, not yet
 * settled), or only in the store.
 */
export function createReadyQueue(route: string, store: DeliveryStore, clock: Clock): DeliveryQueue {
  const window: number[] = [];
  /** In the window or under way: not to be taken from the store again. */
  const known = new Set<number>();
  /** True when the store may hold due deliveries that are not in the window. */
  let more = true;
  /** When the earliest delivery that only the store holds becomes due, as far as known. */
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
        // It no longer waits.
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
