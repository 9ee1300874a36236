import type { Clock } from "../model/clock.ts";
import type { ClaimedDeliveries, Settlement, StoredDelivery } from "../model/delivery.ts";
import type { DeliveryQueue, QueueLane } from "./delivery-queue.ts";
import { createHeldClaims } from "./held-claims.ts";

/**
 * The queue's port to a store that many processes share.
 *
 * A claimed delivery belongs to its holder until the lease expires; then another process may claim it. Leases are measured
 * on the store's clock, in milliseconds from the call, so that hosts with different clocks agree. `holder` names one queue
 * of one process and is never reused. Every call may reject (the store is down): the outcome is then unknown, and the call
 * may be repeated.
 */
export interface ClaimStore {
  /** Leases deliveries of a route that are due at `now` (unix ms), soonest first, including those with an expired lease. */
  claim(route: string, request: ClaimRequest): Promise<Claim>;
  /** Renews these leases for `leaseMs` from now; returns the events that the holder has lost. */
  renew(route: string, events: readonly number[], holder: string, leaseMs: number): Promise<readonly number[]>;
  /** Ends these leases; the deliveries keep their place among those due. Leases of other holders stay. */
  handBack(route: string, events: readonly number[], holder: string): Promise<void>;
  /**
   * Writes the outcome of an attempt and ends the lease. Resolves, once that is durable, with the event of the delivery that
   * this one held back, if any. Writes nothing but `stop` when another process has the lease, or when `attempt.number` is
   * not one more than the delivery's attempts (a repeated call). An expired lease that no process claimed is still valid.
   */
  settle(settlement: Settlement, holder: string): Promise<number | null>;
}

interface ClaimRequest {
  /** Unix ms on the caller's clock: deliveries due by then. */
  readonly now: number;
  /** Most deliveries; at least 1. */
  readonly limit: number;
  /** Limit on the sum of the bodies, in bytes. The first delivery is returned whatever its size. */
  readonly maxBytes: number;
  readonly leaseMs: number;
  readonly holder: string;
}

export interface Claim {
  readonly deliveries: readonly StoredDelivery[];
  /** True when more deliveries were due. */
  readonly more: boolean;
  /** Unix ms at which the next one becomes due; null when none waits. Meaningless when `more`. */
  readonly nextDueAt: number | null;
  /** Why the destination is stopped, in which case nothing is returned; else null. */
  readonly stopped: string | null;
}

interface ClaimQueueParts {
  readonly store: ClaimStore;
  readonly clock: Clock;
  /** A name that no other process has or had. */
  readonly holder: string;
}

/**
 * Short enough that a killed worker's deliveries go on soon, long enough for a stalled process. When the store itself is
 * unavailable for longer, no claims are lost: see lua/claim.lua.
 */
export const leaseMs = 10_000;

/** Poll interval, so that a lost wake-up costs a second and not a delivery. */
const pollMs = 1000;

/** Wait after a failed call to the store. */
const storeRetryMs = 500;

/** Bytes of buffered bodies at which claiming stops. */
const mostBytes = 8 * 1024 * 1024;

/** Deliveries per claim. More would block other callers of the store. */
const mostAtOnce = 250;

/** Claims ahead what finishes within this time, a few round trips to the store. */
const aheadMs = 100;

/** A claimed delivery that could not start for this long is handed back for other workers. */
const keepMs = 2000;

/**
 * The queue of one route over a store that many processes claim from.
 *
 * Deliveries are claimed ahead in the background, so that connections do not idle for a round trip. Only as many are
 * claimed as this process finishes in `aheadMs` at its present speed, so that other workers can take the rest. Leases are
 * renewed for as long as a delivery is here.
 */
export function createClaimQueue(route: string, lane: QueueLane, { store, clock, holder }: ClaimQueueParts): DeliveryQueue {
  const held = createHeldClaims();
  /** True while the lane wants deliveries. */
  let wanted = false;
  /** True when the store may have due deliveries that are not claimed here. */
  let more = true;
  /** When the next delivery that is not claimed here becomes due, as far as known. */
  let dueAt: number | null = null;
  let claiming = false;
  let renewing = false;
  /** Earliest next claim after a failure. */
  let notBefore = 0;
  let stop: string | null = null;
  let stopChanges = 0;
  let closed = false;
  /** The hand-back in flight. A claim waits for it, or it would get the same deliveries again. */
  let handing: Promise<void> = Promise.resolve();
  /** Events whose hand-back failed. */
  let unreturned: number[] = [];
  let claimInFlight: Promise<void> = Promise.resolve();
  /** Attempts finished since the last poll, and in the interval before. Starts come in bursts, so they are no measure. */
  let finished = 0;
  let finishedBefore = 0;
  let polledAt = clock.now();
  let cancelPoll = clock.after(pollMs, poll);
  let cancelRetry: () => void = () => {};

  /** How many to buffer: those that may start now, and those that will within `aheadMs` at the present speed. */
  function target(now: number): number {
    const perMs = (finishedBefore + finished) / (pollMs + Math.max(0, now - polledAt));
    return lane.room() + Math.min(lane.mostAhead(), Math.floor(perMs * aheadMs));
  }

  /** Claims when too few are buffered. `evenStopped` claims for a stopped route too, to see whether it still is. */
  function refill(evenStopped = false): void {
    const now = clock.now();
    // Later than one wait allows: the clock was set back.
    notBefore = Math.min(notBefore, now + storeRetryMs);
    if (!wanted || closed || claiming || now < notBefore || (stop !== null && !evenStopped)) return;
    if (!more && (dueAt === null || dueAt > now)) return;
    const enough = target(now);
    const limit = Math.min(mostAtOnce, enough - held.readyCount());
    const maxBytes = mostBytes - held.readyBytes();
    if (limit <= 0 || maxBytes <= 0 || held.readyCount() > enough / 2) return;
    claiming = true;
    claimInFlight = claim(limit, maxBytes).then((ok) => {
      claiming = false;
      if (ok) refill();
    });
  }

  async function claim(limit: number, maxBytes: number): Promise<boolean> {
    await handing;
    // Reset before the call: what is offered while it is in flight may not be in its answer.
    more = false;
    dueAt = null;
    const sentAt = clock.now();
    const stopsBefore = stopChanges;
    let answer: ClaimedDeliveries;
    try {
      answer = await store.claim(route, { now: sentAt, limit, maxBytes, leaseMs, holder });
    } catch (error) {
      failed(error);
      return false;
    }
    more ||= answer.more;
    if (answer.nextDueAt !== null) expect(answer.nextDueAt);
    if (stopsBefore === stopChanges) setStop(answer.stopped);
    for (const delivery of answer.deliveries) held.take(delivery, sentAt + leaseMs, clock.now());
    if (!wanted || stop !== null) handBack(held.dropReady());
    else if (answer.deliveries.length > 0) lane.wake();
    return true;
  }

  function expect(at: number): void {
    if (dueAt === null || at < dueAt) dueAt = at;
  }

  function failed(error: unknown): void {
    more = true;
    notBefore = clock.now() + storeRetryMs;
    cancelRetry();
    cancelRetry = clock.after(storeRetryMs, refill);
    lane.failed(error);
  }

  function setStop(reason: string | null): void {
    if (reason === stop) return;
    stop = reason;
    lane.wake();
  }

  function handBack(events: readonly number[]): void {
    if (events.length === 0) return;
    more = true;
    const before = handing;
    handing = before
      .then(() => store.handBack(route, events, holder))
      .catch((error) => {
        unreturned.push(...events);
        lane.failed(error);
      });
  }

  /** Hands back what waits too long. Failed hand-backs wait while a claim is in flight, which may return those deliveries. */
  function handBackOld(now: number): void {
    const old = held.dropOlder(now - keepMs);
    if (claiming) {
      handBack(old);
      return;
    }
    const before = [...held.takeLapsed(), ...unreturned];
    unreturned = [];
    handBack([...old, ...before.filter((event) => held.find(event) === null)]);
  }

  function poll(): void {
    const now = clock.now();
    held.setBack(now, now + leaseMs);
    handBackOld(now);
    if (!renewing) void renew(now);
    finishedBefore = finished;
    finished = 0;
    polledAt = now;
    more = true;
    refill(true);
    cancelPoll = clock.after(pollMs, poll);
  }

  async function renew(now: number): Promise<void> {
    const claims = held.endingBefore(now + (leaseMs * 2) / 3);
    if (claims.length === 0) return;
    renewing = true;
    try {
      const events = claims.map(({ event }) => event);
      const lost = new Set(await store.renew(route, events, holder, leaseMs));
      for (const claimed of claims) held.renewed(claimed, lost.has(claimed.event) ? null : now + leaseMs);
    } catch (error) {
      // The next poll tries again. There is time for about six tries.
      lane.failed(error);
    } finally {
      renewing = false;
    }
  }

  return {
    look: (run) => run(),
    peek(now): StoredDelivery | null {
      wanted = !closed;
      const delivery = held.next(now);
      if (delivery === null) refill();
      return delivery;
    },
    start() {
      held.start();
      refill();
    },
    async settle(settlement) {
      const { event, eventId, settled } = settlement;
      if (settlement.stop !== undefined) {
        stopChanges += 1;
        setStop(settlement.stop);
        handBack(held.dropReady());
      }
      const claimed = held.find(event);
      const released = await store.settle(settlement, holder);
      finished += 1;
      // That number may name another event by now.
      if (claimed !== null && claimed.delivery.eventId === (eventId ?? claimed.delivery.eventId)) held.end(claimed);
      if (settled.to === "waiting") expect(settled.nextAt);
      more ||= released !== null;
    },
    putBack(event) {
      const claimed = held.find(event);
      if (claimed !== null) held.end(claimed);
      handBack([event]);
    },
    rest() {
      wanted = false;
      handBack(held.dropReady());
    },
    offer({ at }) {
      if (at <= clock.now()) more = true;
      else expect(at);
      refill();
    },
    lookAgain() {
      more = true;
      refill(true);
    },
    // During a claim, or while claims wait after a failure, the queue wakes the lane itself.
    nextDueAt: () => (dueAt !== null && dueAt > clock.now() ? dueAt : null),
    stopReason: () => stop,
    async close() {
      closed = true;
      wanted = false;
      cancelPoll();
      cancelRetry();
      await claimInFlight;
      handBack(held.dropReady());
      await handing;
    },
  };
}
