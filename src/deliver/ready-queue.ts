import type { Clock } from "../model/clock.ts";
import type {
  DuePlaces,
  DueRange,
  QueuedDelivery,
  QueueKey,
  QueuePlace,
  SettledOutcome,
  Settlement,
  Settling,
  StoredDelivery,
} from "../model/delivery.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { leaseName, type Shard, wholeRoute } from "../model/route-lease.ts";
import { createDueWindow, createReads, type DueWindow } from "./due-window.ts";

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
interface QueueLane {
  /** There may be something to start, or the stop has changed. */
  wake(): void;
  /** A call to the store failed; the queue retries by itself. */
  failed(error: unknown): void;
  /** How many more deliveries could start now. */
  room(): number;
  /** How many deliveries are worth buffering beyond `room`. */
  mostAhead(): number;
}

export type ReadyQueue = ReturnType<typeof createReadyQueue>;
/** `stopped`: why the destination is stopped when the queue begins. */
export type QueueOf = (route: string, lane: QueueLane, stopped: string | null, shard: Shard) => ReadyQueue;

interface ReadyQueueParts {
  readonly store: DeliveryStore;
  readonly clock: Clock;
  /** Other processes write to the store, and may not reach this one with what they report. */
  readonly isShared: boolean;
  /** Why the destination is stopped when the queue begins. */
  readonly stopped: string | null;
  /** Default: all lanes of the route. */
  readonly shard?: Shard;
}

/** Most deliveries that are loaded at once. */
const mostAtOnce = 64;
/** What was loaded from a shared store is sent within this time, or loaded again. */
const freshMs = 100;
/** Loads ahead from a shared store what starts within this time, a few round trips. */
const aheadMs = 50;
/** How often a shared store is read without a reason: a report that was lost costs this time. */
const pollMs = 500;
/** A poll looks for rows that became visible so long after their time. */
const lateMs = 5_000;
/** Every so many polls, all rows are looked at. */
const pollsPerWholeLook = 20;

/**
 * The queue of a route or shard that this process alone delivers. The store has all waiting deliveries; the queue has a window of the
 * places of those due now. A delivery is loaded shortly before it is sent, so that what changed in between is seen. It is in
 * the window, ready (loaded), in flight (started, not yet settled), or only in the store.
 */
export function createReadyQueue(route: string, lane: QueueLane, parts: ReadyQueueParts) {
  const { store, clock, isShared, stopped, shard = wholeRoute } = parts;
  const lease = leaseName(route, shard);
  const reads = createReads(clock, lane);
  const window = createDueWindow(route, { store, clock, isShared, shard, ask: reads.ask });
  const stop = createStop(stopped, (done) =>
    reads.ask(
      () => store.stopReason(route),
      done,
      () => {},
    ),
  );
  const ready = createLoaded(window, (taken, done, undone) => reads.ask(() => store.load(route, taken), done, undone));
  const inFlight = new Map<number, QueuedDelivery>();
  /** Another process delivers this route now. */
  let isLost = false;
  let polls = 0;
  /** Settled since the last poll, and in the interval before. */
  let [settled, settledBefore] = [0, 0];
  let cancelPoll = isShared ? clock.after(pollMs, poll) : () => {};

  /** How many more than can start now will start within `aheadMs` at the present speed. */
  function ahead(): number {
    return isShared ? Math.min(lane.mostAhead(), Math.floor(((settled + settledBefore) / pollMs) * aheadMs)) : 0;
  }

  function load(now: number): void {
    ready.load(now, Math.max(1, Math.min(mostAtOnce, lane.room() + ahead() - ready.count())));
  }

  function poll(): void {
    polls += 1;
    [settled, settledBefore] = [0, settled];
    lookAgain(polls % pollsPerWholeLook === 0 ? 0 : clock.now() - lateMs);
    lane.wake();
    cancelPoll = clock.after(pollMs, poll);
  }

  function lookAgain(from: number): void {
    window.lookFrom(from);
    stop.lookAgain();
  }

  return {
    /** Runs several `peek`s and `start`s as one batch, which may cost less. `run` must be synchronous. */
    look(run: () => void): void {
      try {
        run();
      } finally {
        // Of a store of this process, nothing is sent later than in the turn in which it was loaded.
        if (!isShared) ready.unload();
      }
    },
    /** The next delivery due at `now` (unix ms); null when none is loaded. The lane is woken when one comes, or at `nextDueAt`. */
    peek(now: number): StoredDelivery | null {
      if (isLost || reads.isResting()) return null;
      for (;;) {
        const first = ready.first(now);
        if (first !== null) return first;
        ready.unload();
        window.fill(now);
        if (ready.isLoading() || window.isEmpty()) return null;
        load(now);
        if (ready.isLoading()) return null;
      }
    },
    /** Takes out the peeked delivery, whose attempt starts. `settle` or `putBack` must follow. */
    start(): void {
      const started = ready.take();
      if (started === undefined) return;
      inFlight.set(started.event, started);
      if (isShared && !ready.isLoading() && !window.isEmpty() && ready.count() < ahead() / 2) load(clock.now());
    },
    /** Writes the outcome of the attempt; resolves once it is durable. May be called again after it rejected. */
    async settle(settlement: Settlement): Promise<void> {
      const { event, settled: to, at } = settlement;
      const delivery = inFlight.get(event);
      if (delivery === undefined) throw new Error(`event ${event} is settled without an attempt`);
      if (settlement.stop !== undefined) stop.begin(settlement.stop);
      const outcome = await store.settle({ ...settlement, delivery, lease });
      settled += 1;
      inFlight.delete(event);
      window.forget(event);
      if (outcome.result === "lost") {
        isLost = true;
        return;
      }
      if (to.to === "waiting") window.expect(to.nextAt);
      else if (outcome.result === "settled" && outcome.released !== null) window.offer(outcome.released);
      // A repeated settlement does not know what the first one released.
      if (outcome.result === "late") window.lookFrom(at);
    },
    /** The attempt did not count: the delivery waits as before. */
    putBack(event: number): void {
      const delivery = inFlight.get(event);
      inFlight.delete(event);
      window.forget(event);
      window.lookFrom(delivery?.dueAt ?? 0);
    },
    /** Nothing starts for a while: nothing stays loaded until the next `peek`. */
    rest: ready.unload,
    offer: window.offer,
    /** The store was changed from outside this lane. */
    lookAgain: (): void => lookAgain(clock.now() - lateMs),
    /** Unix ms at which to `peek` again; null: not before the lane is woken, as by an answer that is awaited. */
    nextDueAt: window.dueAt,
    /** Why the destination is stopped; null when it is not. */
    stopReason: stop.reason,
    /** After the last attempt was settled or put back. */
    close(): void {
      cancelPoll();
      reads.close();
    },
  };
}

type Read = (taken: readonly QueuePlace[], done: (found: readonly QueuedDelivery[]) => void, undone: () => void) => void;

/** Deliveries that are taken from the window and loaded, until they start or go back to it. `read` asks the store. */
function createLoaded(window: DueWindow, read: Read) {
  let ready: { readonly delivery: QueuedDelivery; readonly loadedAt: number }[] = [];
  let isLoading = false;

  return {
    count: () => ready.length,
    isLoading: () => isLoading,
    first(now: number): QueuedDelivery | null {
      const first = ready[0];
      return first !== undefined && now - first.loadedAt < freshMs ? first.delivery : null;
    },
    take: (): QueuedDelivery | undefined => ready.shift()?.delivery,
    load(now: number, most: number): void {
      const taken = window.take(most);
      isLoading = true;
      read(
        taken,
        (found) => {
          isLoading = false;
          let next = 0;
          for (const { event } of taken) {
            const delivery = found[next]?.event === event ? found[next++] : undefined;
            if (delivery !== undefined && delivery.dueAt <= now) ready.push({ delivery, loadedAt: now });
            else {
              // It waits for later, or not any more.
              window.forget(event);
              if (delivery !== undefined) window.expect(delivery.dueAt);
            }
          }
        },
        () => {
          isLoading = false;
          window.putBack(taken);
        },
      );
    },
    /** What is loaded waits in the window again. */
    unload(): void {
      if (ready.length === 0) return;
      window.putBack(ready.map(({ delivery: { lane, event, dueAt } }) => ({ lane, event, at: dueAt })));
      ready = [];
    },
  };
}

/** Why the destination is stopped. `read` asks the store. */
function createStop(initial: string | null, read: (done: (reason: string | null) => void) => void) {
  let stop = initial;
  /** Counts changes, because an answer of the store may be older. */
  let changes = 0;
  return {
    reason: () => stop,
    begin(reason: string): void {
      changes += 1;
      stop = reason;
    },
    /** An operator may have ended it. */
    lookAgain(): void {
      if (stop === null) return;
      const before = changes;
      read((reason) => {
        if (before === changes) stop = reason;
      });
    },
  };
}
