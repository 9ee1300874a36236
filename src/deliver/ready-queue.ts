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

type ReadyQueue = ReturnType<typeof createReadyQueue>;
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

/** Due deliveries whose places are in memory, per route. */
const windowSize = 512;
/** A shared store is asked for more places when so few are left, so that nothing waits for the answer. */
const windowLow = 128;
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
/** Wait after a failed read of a shared store. */
const storeRetryMs = 500;

/**
 * The queue of a route or shard that this process alone delivers. The store has all waiting deliveries; the queue has a window of the
 * places of those due now. A delivery is loaded shortly before it is sent, so that what changed in between is seen. It is in
 * the window, ready (loaded), in flight (started, not yet settled), or only in the store.
 */
export function createReadyQueue(route: string, lane: QueueLane, parts: ReadyQueueParts) {
  const { store, clock, isShared, stopped, shard = wholeRoute } = parts;
  const lease = leaseName(route, shard);
  const window: QueuePlace[] = [];
  let ready: { readonly delivery: QueuedDelivery; readonly loadedAt: number }[] = [];
  const inFlight = new Map<number, QueuedDelivery>();
  /** In the window, ready or in flight: not to be taken from the store again. */
  const known = new Set<number>();
  /** True when the store may have due deliveries that are not known. */
  let more = true;
  /** When the next delivery that is not known becomes due, as far as known. */
  let dueAt: number | null = null;
  /**
   * No delivery that is due before is unknown. A look at a shared store begins here, because PostgreSQL cannot remove the
   * dead entries at the head of an index while a transaction is open anywhere.
   */
  let from = 0;
  let looking = false;
  let loading = false;
  let stop = stopped;
  /** Counts changes of `stop`, because an answer of the store may be older. */
  let stops = 0;
  /** Another process delivers this route now. */
  let isLost = false;
  let isResting = false;
  let polls = 0;
  /** Settled since the last poll, and in the interval before. */
  let [settled, settledBefore] = [0, 0];
  let cancelRest = (): void => {};
  let cancelPoll = isShared ? clock.after(pollMs, poll) : () => {};

  /** What throws at once throws here. What fails later is reported, and the lane is woken after a rest. */
  function ask<A>(call: () => MaybePromise<A>, done: (answer: A) => void, undone: () => void): void {
    let answer: MaybePromise<A>;
    try {
      answer = call();
    } catch (error) {
      undone();
      throw error;
    }
    if (!(answer instanceof Promise)) {
      done(answer);
      return;
    }
    answer.then(
      (later) => {
        done(later);
        lane.wake();
      },
      (error: unknown) => {
        undone();
        isResting = true;
        cancelRest();
        cancelRest = clock.after(storeRetryMs, () => {
          isResting = false;
          lane.wake();
        });
        lane.failed(error);
      },
    );
  }

  function expect(at: number): void {
    if (dueAt === null || at < dueAt) dueAt = at;
    from = Math.min(from, at);
  }

  function lookFrom(at: number): void {
    from = Math.min(from, at);
    more = true;
  }

  /** Fills the window. */
  function look(now: number): void {
    const limit = windowSize + known.size;
    const lookedFrom = isShared ? from : 0;
    // Reset before the call: what is reported meanwhile may not be in the answer.
    looking = true;
    more = false;
    dueAt = null;
    from = Number.MAX_SAFE_INTEGER;
    ask(
      () => store.due({ route, from: lookedFrom, now, limit, shard }),
      ({ places, nextAt }) => {
        looking = false;
        let passed = places.length < limit ? now : (places.at(-1)?.at ?? now);
        for (const place of places) {
          if (known.has(place.event)) continue;
          if (window.length >= windowSize) {
            more = true;
            passed = Math.min(passed, place.at);
            break;
          }
          enter(place);
        }
        more ||= places.length === limit;
        from = Math.min(from, passed);
        if (nextAt !== null) expect(nextAt);
      },
      () => {
        looking = false;
        lookFrom(lookedFrom);
      },
    );
  }

  function enter(place: QueuePlace): void {
    window.push(place);
    known.add(place.event);
  }

  /** How many more than can start now will start within `aheadMs` at the present speed. */
  function ahead(): number {
    return isShared ? Math.min(lane.mostAhead(), Math.floor(((settled + settledBefore) / pollMs) * aheadMs)) : 0;
  }

  function load(now: number): void {
    const taken = window.splice(0, Math.max(1, Math.min(mostAtOnce, lane.room() + ahead() - ready.length)));
    loading = true;
    ask(
      () => store.load(route, taken),
      (found) => {
        loading = false;
        let next = 0;
        for (const { event } of taken) {
          const delivery = found[next];
          if (delivery?.event !== event) {
            // It does not wait any more.
            known.delete(event);
            continue;
          }
          next += 1;
          if (delivery.dueAt <= now) ready.push({ delivery, loadedAt: now });
          else {
            known.delete(event);
            expect(delivery.dueAt);
          }
        }
      },
      () => {
        loading = false;
        window.unshift(...taken);
      },
    );
  }

  /** What is loaded waits in the window again. */
  function unload(): void {
    if (ready.length === 0) return;
    window.unshift(...ready.map(({ delivery: { lane, event, dueAt } }) => ({ lane, event, at: dueAt })));
    ready = [];
  }

  function offer(place: QueuePlace): void {
    if (place.at > clock.now()) expect(place.at);
    else if (more || window.length >= windowSize) lookFrom(place.at);
    else if (!known.has(place.event)) enter(place);
  }

  function readStop(): void {
    const before = stops;
    ask(
      () => store.stopReason(route),
      (reason) => {
        if (before === stops) stop = reason;
      },
      () => {},
    );
  }

  function poll(): void {
    polls += 1;
    [settled, settledBefore] = [0, settled];
    lookFrom(polls % pollsPerWholeLook === 0 ? 0 : clock.now() - lateMs);
    if (stop !== null) readStop();
    lane.wake();
    cancelPoll = clock.after(pollMs, poll);
  }

  function isDue(now: number): boolean {
    return more || (dueAt !== null && dueAt <= now);
  }

  return {
    /** Runs several `peek`s and `start`s as one batch, which may cost less. `run` must be synchronous. */
    look(run: () => void): void {
      try {
        run();
      } finally {
        // Of a store of this process, nothing is sent later than in the turn in which it was loaded.
        if (!isShared) unload();
      }
    },
    /** The next delivery due at `now` (unix ms); null when none is loaded. The lane is woken when one comes, or at `nextDueAt`. */
    peek(now: number): StoredDelivery | null {
      if (isLost || isResting) return null;
      for (;;) {
        const first = ready[0];
        if (first !== undefined && now - first.loadedAt < freshMs) return first.delivery;
        unload();
        if (!looking && window.length <= (isShared ? windowLow : 0) && isDue(now)) look(now);
        if (loading || window.length === 0) return null;
        load(now);
        if (loading) return null;
      }
    },
    /** Takes out the peeked delivery, whose attempt starts. `settle` or `putBack` must follow. */
    start(): void {
      const started = ready.shift()?.delivery;
      if (started === undefined) return;
      inFlight.set(started.event, started);
      if (isShared && !loading && window.length > 0 && ready.length < ahead() / 2) load(clock.now());
    },
    /** Writes the outcome of the attempt; resolves once it is durable. May be called again after it rejected. */
    async settle(settlement: Settlement): Promise<void> {
      const { event, settled: to, at } = settlement;
      const delivery = inFlight.get(event);
      if (delivery === undefined) throw new Error(`event ${event} is settled without an attempt`);
      if (settlement.stop !== undefined) {
        stops += 1;
        stop = settlement.stop;
      }
      const outcome = await store.settle({ ...settlement, delivery, lease });
      settled += 1;
      inFlight.delete(event);
      known.delete(event);
      if (outcome.result === "lost") {
        isLost = true;
        return;
      }
      if (to.to === "waiting") expect(to.nextAt);
      else if (outcome.result === "settled" && outcome.released !== null) offer(outcome.released);
      // A repeated settlement does not know what the first one released.
      if (outcome.result === "late") lookFrom(at);
    },
    /** The attempt did not count: the delivery waits as before. */
    putBack(event: number): void {
      const delivery = inFlight.get(event);
      inFlight.delete(event);
      known.delete(event);
      lookFrom(delivery?.dueAt ?? 0);
    },
    /** Nothing starts for a while: nothing stays loaded until the next `peek`. */
    rest: unload,
    /** A delivery becomes due. */
    offer,
    /** The store was changed from outside this lane. */
    lookAgain(): void {
      lookFrom(clock.now() - lateMs);
      if (stop !== null) readStop();
    },
    /** Unix ms at which to `peek` again; null: not before the lane is woken, as by an answer that is awaited. */
    nextDueAt: () => dueAt,
    /** Why the destination is stopped; null when it is not. */
    stopReason: () => stop,
    /** After the last attempt was settled or put back. */
    close(): void {
      cancelPoll();
      cancelRest();
    },
  };
}
