import type { Clock } from "../event/clock.ts";
import type { DeliveryStore } from "./delivery-store.ts";

/** Most numbers of due deliveries in memory for one route. */
const windowSize = 512;

/**
 * Which delivery of a route goes next. The store knows all that wait; here is a window of those due
 * now. A number is in one of three places: in the window, under way (started, not yet settled), or
 * only in the store.
 */
export interface ReadyQueue {
  /** A delivery became due at `at` (unix ms). */
  offer(event: number, at: number): void;
  /** The next due delivery, read from the store when the window is empty; null when none is due. */
  peek(now: number): number | null;
  /** Takes the peeked one out: its attempt starts. */
  start(): void;
  /** Takes the peeked one out for good: it no longer waits. */
  drop(): void;
  /** The attempt is settled; `nextAt` is when it waits again, null when it does not. */
  finish(event: number, nextAt: number | null): void;
  /** The attempt did not count: the delivery waits as before. */
  putBack(event: number): void;
  /** The store was changed by somebody else. */
  lookAgain(): void;
  /** Unix ms at which `peek` is worth another look; null: not before something is offered. */
  nextDueAt(): number | null;
}

export function createReadyQueue(route: string, store: DeliveryStore, clock: Clock): ReadyQueue {
  const window: number[] = [];
  /** In the window or under way: not to be taken from the store again. */
  const known = new Set<number>();
  /** True when the store may hold due deliveries that are not in the window. */
  let more = true;
  /** When the earliest delivery that only the store holds becomes due, as far as known. */
  let dueAt: number | null = null;

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

  return {
    offer(event, at) {
      if (at > clock.now()) expect(at);
      else if (more || window.length >= windowSize) more = true;
      else if (!known.has(event)) {
        window.push(event);
        known.add(event);
      }
    },
    peek(now) {
      if (window.length === 0 && (more || (dueAt !== null && dueAt <= now))) refill(now);
      return window[0] ?? null;
    },
    start() {
      window.shift();
    },
    drop() {
      known.delete(window.shift() as number);
    },
    finish(event, nextAt) {
      known.delete(event);
      if (nextAt !== null) expect(nextAt);
    },
    putBack(event) {
      known.delete(event);
      more = true;
    },
    lookAgain() {
      more = true;
    },
    nextDueAt: () => dueAt,
  };
}
