import { createPolls, type PollStore } from "../../src/deliver/polls.ts";
import { createReadyQueue, type DeliveryStore } from "../../src/deliver/ready-queue.ts";
import { systemClock } from "../../src/model/clock.ts";
import type { QueuePlace, StoredDelivery } from "../../src/model/delivery.ts";
import type { Shard } from "../../src/model/route-lease.ts";
import type { DueDelivery } from "../../src/store/port.ts";

export interface PortLane {
  /** Delivers so many to a destination that answers at once. Rejects when the store fails. */
  deliver(count: number): Promise<void>;
  offer(place: QueuePlace): void;
  lookAgain(): void;
  close(): Promise<void>;
}

export interface PortLaneParts {
  readonly route: string;
  readonly shard?: Shard;
  readonly store: DeliveryStore & PollStore;
  readonly isShared: boolean;
  /** After each delivery. */
  readonly settled?: () => void;
}

/** Deliveries in flight. */
const concurrency = 64;

/** Delivers a route from a store as a lane of the relay does, without sending anything. */
export function createPortLane({
  route,
  shard,
  store,
  isShared,
  settled = () => {},
}: PortLaneParts): PortLane {
  let [wanted, inFlight] = [0, 0];
  let isWoken = false;
  let ended = Promise.withResolvers<void>();
  const lane = {
    wake,
    polled: wake,
    failed: fail,
    room: () => concurrency - inFlight,
    mostAhead: () => concurrency,
    isProbing: () => false,
  };
  const polls = isShared ? createPolls(store, systemClock) : null;
  const parts = { store, clock: systemClock, polls };
  const queue = createReadyQueue(route, lane, shard === undefined ? parts : { ...parts, shard });

  function fail(error: unknown): void {
    ended.reject(error);
  }

  /** Once in a turn of the event loop, as the relay's lanes are. */
  function wake(): void {
    if (isWoken) return;
    isWoken = true;
    setImmediate(() => {
      isWoken = false;
      queue.look(start);
    });
  }

  function start(): void {
    while (wanted > 0 && inFlight < concurrency) {
      const delivery = queue.peek(Date.now());
      if (delivery === null) return;
      queue.start();
      wanted -= 1;
      inFlight += 1;
      settle(delivery).catch(fail);
    }
  }

  async function settle({ event, receivedAt, attempts }: StoredDelivery): Promise<void> {
    const at = Date.now();
    const result = { kind: "answered", status: 200, retryAfterMs: null } as const;
    const attempt = { number: attempts + 1, at, tookMs: 1, result, response: null };
    await queue.settle({ route, event, at, receivedAt, attempt, settled: { to: "delivered" } });
    inFlight -= 1;
    settled();
    if (wanted === 0 && inFlight === 0) ended.resolve();
    else wake();
  }

  return {
    async deliver(count) {
      ended = Promise.withResolvers();
      wanted = count;
      wake();
      await ended.promise;
    },
    offer(place) {
      queue.offer(place);
      wake();
    },
    lookAgain() {
      queue.lookAgain();
      wake();
    },
    async close() {
      queue.close();
    },
  };
}

/** Where the deliveries of accepted events wait. */
export const placesOf = (due: readonly DueDelivery[]): QueuePlace[] =>
  due.flatMap(({ event, at, lane }) => (lane === undefined ? [] : [{ event, at, lane }]));
