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

/** A SQLite file answers reads at once, PostgreSQL later. */
export interface DeliveryStore {
  due(range: DueRange): MaybePromise<DuePlaces>;
  /** Those of the deliveries that still wait, in the order of `keys`. */
  load(route: string, keys: readonly QueueKey[]): MaybePromise<readonly QueuedDelivery[]>;
  settle(settling: Settling): Promise<SettledOutcome>;
  stopReason(route: string): MaybePromise<string | null>;
}

interface QueueLane {
  /** There may be something to start, or the stop has changed. */
  wake(): void;
  failed(error: unknown): void;
  /** How many more deliveries could start now. */
  room(): number;
  /** How many deliveries are worth buffering beyond `room`. */
  mostAhead(): number;
}

export type ReadyQueue = ReturnType<typeof createReadyQueue>;
export type QueueOf = (route: string, lane: QueueLane, stopped: string | null, shard: Shard) => ReadyQueue;

interface ReadyQueueParts {
  readonly store: DeliveryStore;
  readonly clock: Clock;
  /** Other processes write to the store, and may not reach this one with what they report. */
  readonly isShared: boolean;
  /** Why the destination is stopped when the queue begins. */
  readonly stopped: string | null;
  readonly shard?: Shard;
}

/** Due deliveries whose places are in memory, per route. */
const windowSize = 512;
/** A shared store is asked for more places when so few are left, so that nothing waits for the answer. */
const windowLow = 128;
/** Wait after a failed read of a shared store. */
const storeRetryMs = 500;
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
 * The queue of a route or shard that this process alone delivers. The store has all waiting deliveries. A delivery is in
 * the window of places that are due, ready (loaded shortly before it is sent, so that what changed in between is seen), in
 * flight (started, not yet settled), or only in the store.
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
    /** When to `peek` again, in unix ms; null: not before the lane is woken. */
    nextDueAt: window.dueAt,
    stopReason: stop.reason,
    /** After the last attempt was settled or put back. */
    close(): void {
      cancelPoll();
      reads.close();
    },
  };
}

type Read = (taken: readonly QueuePlace[], done: (found: readonly QueuedDelivery[]) => void, undone: () => void) => void;

/** Taken from the window, until they start or go back to it. `read` asks the store. */
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

/** `read` asks the store. */
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
    lookAgain(): void {
      if (stop === null) return;
      const before = changes;
      read((reason) => {
        if (before === changes) stop = reason;
      });
    },
  };
}

/** Reads the store: at once, or later. `undone` is called instead of `done` when that fails. */
type Ask = <A>(call: () => MaybePromise<A>, done: (answer: A) => void, undone: () => void) => void;

/** Reads of a store for one lane. What throws at once throws there. What fails later is reported, and the lane is woken after a rest. */
function createReads(clock: Clock, lane: { wake(): void; failed(error: unknown): void }) {
  let isResting = false;
  let cancel = (): void => {};

  function rest(): void {
    isResting = true;
    cancel();
    cancel = clock.after(storeRetryMs, () => {
      isResting = false;
      lane.wake();
    });
  }

  const ask: Ask = (call, done, undone) => {
    let answer: ReturnType<typeof call>;
    try {
      answer = call();
    } catch (error) {
      undone();
      throw error;
    }
    if (!(answer instanceof Promise)) {
      done(answer as Awaited<typeof answer>);
      return;
    }
    answer.then(
      (later) => {
        done(later);
        lane.wake();
      },
      (error: unknown) => {
        undone();
        rest();
        lane.failed(error);
      },
    );
  };

  return { ask, isResting: () => isResting, close: () => cancel() };
}

interface WindowParts {
  readonly store: Pick<DeliveryStore, "due">;
  readonly clock: Clock;
  readonly isShared: boolean;
  readonly shard: Shard;
  readonly ask: Ask;
}

type DueWindow = ReturnType<typeof createDueWindow>;

/** The places of the deliveries of a route that are due, the next ones first. The store has all of them. */
function createDueWindow(route: string, { store, clock, isShared, shard, ask }: WindowParts) {
  const places: QueuePlace[] = [];
  /** Those in the window, and those that were taken out of it and not forgotten. */
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
  let isSearching = false;

  function expect(at: number): void {
    if (dueAt === null || at < dueAt) dueAt = at;
    from = Math.min(from, at);
  }

  function lookFrom(at: number): void {
    from = Math.min(from, at);
    more = true;
  }

  function enter(place: QueuePlace): void {
    places.push(place);
    known.add(place.event);
  }

  function look(now: number): void {
    const limit = windowSize + known.size;
    const searchedFrom = isShared ? from : 0;
    // Reset before the call: what is reported meanwhile may not be in the answer.
    isSearching = true;
    more = false;
    dueAt = null;
    from = Number.MAX_SAFE_INTEGER;
    ask(
      () => store.due({ route, from: searchedFrom, now, limit, shard }),
      ({ places: found, nextAt }) => {
        isSearching = false;
        let passed = found.length < limit ? now : (found.at(-1)?.at ?? now);
        for (const place of found) {
          if (known.has(place.event)) continue;
          if (places.length >= windowSize) {
            more = true;
            passed = Math.min(passed, place.at);
            break;
          }
          enter(place);
        }
        more ||= found.length === limit;
        from = Math.min(from, passed);
        if (nextAt !== null) expect(nextAt);
      },
      () => {
        isSearching = false;
        lookFrom(searchedFrom);
      },
    );
  }

  return {
    isEmpty: () => places.length === 0,
    /** Asks the store for more when few are left. */
    fill(now: number): void {
      const isDue = more || (dueAt !== null && dueAt <= now);
      if (isDue && !isSearching && places.length <= (isShared ? windowLow : 0)) look(now);
    },
    take: (count: number): QueuePlace[] => places.splice(0, count),
    putBack: (taken: readonly QueuePlace[]): void => void places.unshift(...taken),
    /** It was taken, and the store knows better now when it is due. */
    forget: (event: number): boolean => known.delete(event),
    /** A delivery becomes due, now or later. */
    offer(place: QueuePlace): void {
      if (place.at > clock.now()) expect(place.at);
      else if (more || places.length >= windowSize) lookFrom(place.at);
      else if (!known.has(place.event)) enter(place);
    },
    expect,
    /** The store may have deliveries that became due at this time (unix ms) or later. */
    lookFrom,
    dueAt: () => dueAt,
  };
}
