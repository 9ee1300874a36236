import type { Clock } from "../model/clock.ts";
import type { DuePlaces, DueRange, QueuePlace } from "../model/delivery.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { Shard } from "../model/route-lease.ts";

/** Due deliveries whose places are in memory, per route. */
const windowSize = 512;
/** A shared store is asked for more places when so few are left, so that nothing waits for the answer. */
const windowLow = 128;
/** Wait after a failed read of a shared store. */
const storeRetryMs = 500;

/** Reads the store: at once, or later. `undone` is called instead of `done` when that fails. */
export type Ask = <A>(call: () => MaybePromise<A>, done: (answer: A) => void, undone: () => void) => void;

/** Reads of a store for one lane. What throws at once throws there. What fails later is reported, and the lane is woken after a rest. */
export function createReads(clock: Clock, lane: { wake(): void; failed(error: unknown): void }) {
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
  readonly store: { due(range: DueRange): MaybePromise<DuePlaces> };
  readonly clock: Clock;
  readonly isShared: boolean;
  readonly shard: Shard;
  readonly ask: Ask;
}

export type DueWindow = ReturnType<typeof createDueWindow>;

/** The places of the deliveries of a route that are due, the next ones first. The store has all of them. */
export function createDueWindow(route: string, { store, clock, isShared, shard, ask }: WindowParts) {
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
  let looking = false;

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
    const lookedFrom = isShared ? from : 0;
    // Reset before the call: what is reported meanwhile may not be in the answer.
    looking = true;
    more = false;
    dueAt = null;
    from = Number.MAX_SAFE_INTEGER;
    ask(
      () => store.due({ route, from: lookedFrom, now, limit, shard }),
      ({ places: found, nextAt }) => {
        looking = false;
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
        looking = false;
        lookFrom(lookedFrom);
      },
    );
  }

  return {
    isEmpty: () => places.length === 0,
    /** Asks the store for more when few are left. */
    fill(now: number): void {
      const isDue = more || (dueAt !== null && dueAt <= now);
      if (isDue && !looking && places.length <= (isShared ? windowLow : 0)) look(now);
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
