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
import { lateMs, type Polls, pollMs } from "./polls.ts";

/** A SQLite file answers reads at once, PostgreSQL later. */
export interface DeliveryStore {
  due(range: DueRange): MaybePromise<DuePlaces>;
  /** Only those that still wait, in the order of `keys`. */
  load(route: string, keys: readonly QueueKey[]): MaybePromise<readonly QueuedDelivery[]>;
  settle(settling: Settling): Promise<SettledOutcome>;
}

interface QueueLane {
  wake(): void;
  /** A shared store is looked at without a reason. */
  polled(): void;
  failed(error: unknown): void;
  room(): number;
  /** How many more are worth loading. */
  mostAhead(): number;
  /** One goes out before the others, to try the destination. */
  isProbing(): boolean;
}

export type ReadyQueue = ReturnType<typeof createReadyQueue>;
export type QueueOf = (route: string, lane: QueueLane, shard: Shard) => ReadyQueue;

interface ReadyQueueParts {
  readonly store: DeliveryStore;
  readonly clock: Clock;
  /** Null: no other process writes to the store. The reports of others may be lost. */
  readonly polls: Polls | null;
  readonly shard?: Shard;
}

/** Places of due deliveries in memory. */
const windowSize = 512;
/** A shared store is asked for more early, so that nothing waits for the answer. */
const windowLow = 128;
/** After a failed read or write of the store. */
export const storeRetryMs = 500;
const mostAtOnce = 64;
/** Of a shared store: what was loaded, and not sent within this time, is loaded again. */
const freshMs = 100;
/** A few round trips to a shared store. */
const aheadMs = 50;

/**
 * A delivery is in the window of due places, ready (loaded shortly before it is sent), in flight,
 * or only in the store.
 */
export function createReadyQueue(route: string, lane: QueueLane, parts: ReadyQueueParts) {
  const { store, clock, polls, shard = wholeRoute } = parts;
  const isShared = polls !== null;
  const lease = leaseName(route, shard);
  const reads = createReads(clock, lane);
  const window = createDueWindow(route, { store, clock, isShared, shard, ask: reads.ask });
  const ready = createLoaded(window, (taken, done, undone) =>
    reads.ask(() => store.load(route, taken), done, undone),
  );
  const inFlight = new Map<number, QueuedDelivery>();
  /** Another process delivers this route now. */
  let isLost = false;
  let [settled, settledBefore] = [0, 0];
  const endPolls = polls?.add({
    route,
    poll,
    answered(at) {
      if (at === null) return;
      window.expect(at);
      lane.wake();
    },
    failed: lane.failed,
  });

  /** How many more will start within `aheadMs` at the present speed. */
  function ahead(): number {
    return isShared
      ? Math.min(lane.mostAhead(), Math.floor(((settled + settledBefore) / pollMs) * aheadMs))
      : 0;
  }

  function load(now: number): void {
    if (lane.isProbing()) ready.load(now, window.takeNewest());
    else {
      const most = Math.min(mostAtOnce, lane.room() + ahead() - ready.count());
      ready.load(now, window.take(Math.max(1, most)));
    }
  }

  function poll(from: number): boolean {
    [settled, settledBefore] = [0, settled];
    const isIdle = window.isIdle();
    if (!isIdle) window.lookFrom(from);
    lane.polled();
    return isIdle;
  }

  return {
    /** `run` must be synchronous. */
    look(run: () => void): void {
      try {
        run();
      } finally {
        // Of a store of this process, nothing is sent in a later turn than it was loaded in.
        if (isShared) ready.age(clock.now());
        else ready.unload();
      }
    },
    /** `now`: unix ms. Null: the lane is woken when one is loaded, or at `nextDueAt`. */
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
    /** Takes out the peeked delivery. `settle` or `putBack` must follow. */
    start(): void {
      const started = ready.take();
      if (started === undefined) return;
      inFlight.set(started.event, started);
      if (isShared && !ready.isLoading() && !window.isEmpty() && ready.count() < ahead() / 2)
        load(clock.now());
    },
    /** May be called again after it rejected. */
    async settle(settlement: Settlement): Promise<void> {
      const { event, settled: to, at } = settlement;
      const delivery = inFlight.get(event);
      if (delivery === undefined) throw new Error(`event ${event} is settled without an attempt`);
      const outcome = await store.settle({ ...settlement, delivery, lease });
      settled += 1;
      inFlight.delete(event);
      window.forget(event);
      if (outcome.result === "lost") {
        isLost = true;
        return;
      }
      if (to.to === "waiting") window.expect(to.nextAt);
      else if (outcome.result === "settled" && outcome.released !== null)
        window.offer(outcome.released);
      // A repeated settlement does not know what the first one released.
      if (outcome.result === "late") window.lookFrom(at);
    },
    /** The attempt did not count. */
    putBack(event: number): void {
      const delivery = inFlight.get(event);
      inFlight.delete(event);
      window.forget(event);
      window.lookFrom(delivery?.dueAt ?? 0);
    },
    rest: ready.unload,
    offer: window.offer,
    lookAgain: (): void => window.lookFrom(clock.now() - lateMs),
    /** Unix ms; null: not by the clock. */
    nextDueAt: window.dueAt,
    close(): void {
      endPolls?.();
      reads.close();
    },
  };
}

type Read = (
  taken: readonly QueuePlace[],
  done: (found: readonly QueuedDelivery[]) => void,
  undone: () => void,
) => void;

/** Taken from the window, until they start or go back to it. */
function createLoaded(window: DueWindow, read: Read) {
  let ready: { readonly delivery: QueuedDelivery; seenAt: number }[] = [];
  let isLoading = false;

  return {
    count: () => ready.length,
    isLoading: () => isLoading,
    first(now: number): QueuedDelivery | null {
      const first = ready[0];
      return first !== undefined && now - first.seenAt < freshMs ? first.delivery : null;
    },
    /**
     * After a look, which may send all that was loaded before, however long a busy store took: else
     * none might ever be sent.
     */
    age(now: number): void {
      for (const one of ready) one.seenAt = Math.min(one.seenAt, now);
    },
    take: (): QueuedDelivery | undefined => ready.shift()?.delivery,
    load(now: number, taken: readonly QueuePlace[]): void {
      isLoading = true;
      read(
        taken,
        (found) => {
          isLoading = false;
          let next = 0;
          for (const { event } of taken) {
            const delivery = found[next]?.event === event ? found[next++] : undefined;
            if (delivery !== undefined && delivery.dueAt <= now)
              ready.push({ delivery, seenAt: Number.POSITIVE_INFINITY });
            else {
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
    unload(): void {
      if (ready.length === 0) return;
      window.putBack(
        ready.map(({ delivery: { lane, event, dueAt } }) => ({ lane, event, at: dueAt })),
      );
      ready = [];
    },
  };
}

/** `undone` is called instead of `done` when the read fails. */
type Ask = <A>(call: () => MaybePromise<A>, done: (answer: A) => void, undone: () => void) => void;

/**
 * What fails at once throws there. What fails later is reported, and the lane is woken after a
 * rest.
 */
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

function createDueWindow(route: string, { store, clock, isShared, shard, ask }: WindowParts) {
  const places: QueuePlace[] = [];
  /** Also those that were taken out of the window and not forgotten. */
  const known = new Set<number>();
  /** The store may have due deliveries that are not known. */
  let more = true;
  /** When the next unknown one becomes due. */
  let dueAt: number | null = null;
  /**
   * Nothing unknown is due before. PostgreSQL cannot remove dead entries at the head of an index
   * while a transaction is open anywhere.
   */
  let from = 0;
  let isSearching = false;
  /** The last one that was offered, also while the window is full. */
  let newest: QueuePlace | null = null;

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
    isIdle: () => !more && known.size === 0,
    fill(now: number): void {
      const isDue = more || (dueAt !== null && dueAt <= now);
      if (isDue && !isSearching && places.length <= (isShared ? windowLow : 0)) look(now);
    },
    take: (count: number): QueuePlace[] => places.splice(0, count),
    /**
     * Those that failed before are older. Probes of some that the destination never takes would
     * hold all others up for hours.
     */
    takeNewest(): QueuePlace[] {
      const place = newest;
      newest = null;
      if (place === null || known.has(place.event)) return places.splice(-1);
      known.add(place.event);
      return [place];
    },
    putBack: (taken: readonly QueuePlace[]): void => void places.unshift(...taken),
    forget: (event: number): boolean => known.delete(event),
    offer(place: QueuePlace): void {
      if (place.at > clock.now()) {
        expect(place.at);
        return;
      }
      newest = place;
      if (more || places.length >= windowSize) lookFrom(place.at);
      else if (!known.has(place.event)) enter(place);
    },
    expect,
    lookFrom,
    dueAt: () => dueAt,
  };
}
