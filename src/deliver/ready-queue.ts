import type { Clock } from "../event/clock.ts";
import type { DeliveryQueue } from "./delivery-queue.ts";
import type { DeliveryStore } from "./delivery-store.ts";

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
