import type { Clock } from "../event/clock.ts";
import type { StoredDelivery } from "../event/stored-delivery.ts";
import { type Claim, type ClaimStore, createHeldClaims } from "./claims.ts";
import type { DeliveryQueue, QueueLane } from "./delivery-queue.ts";

interface ClaimQueueParts {
  readonly store: ClaimStore;
  readonly clock: Clock;
  /** Names this process, and no other that ever was. */
  readonly holder: string;
}

/**
 * Short enough that a killed worker's deliveries go on soon, long enough for a process that is held up. A store that is away
 * for longer takes nobody's claims: see lua/claim.lua.
 */
export const leaseMs = 10_000;

/** The queue looks by itself so often: a wake-up that got lost costs a second, not a delivery. */
const lookEveryMs = 1000;

/** How long after a failed call the store is asked again. */
const storeRetryMs = 500;

/** Bytes of bodies at hand before no more are claimed. */
const mostBytes = 8 * 1024 * 1024;

/** A claim of more would hold up everybody else in the store. */
const mostAtOnce = 250;

/** What is finished within this time is worth claiming ahead: some round trips to the store. */
const aheadMs = 100;

/** A claimed delivery that could not start for so long goes back, for somebody who can. */
const keepMs = 2000;

/**
 * The queue of one route over a store that many processes claim from.
 *
 * Deliveries are claimed ahead, in the background, so that connections do not idle for a round trip;
 * only as many as this process finishes in `aheadMs` at its present speed, so that a slow destination's
 * deliveries are not kept from other workers. Leases are renewed for as long as a delivery is here.
 */
export function createClaimQueue(route: string, lane: QueueLane, { store, clock, holder }: ClaimQueueParts): DeliveryQueue {
  const held = createHeldClaims();
  /** True while the lane looks for deliveries. */
  let wanted = false;
  /** True when the store may have due deliveries that nobody here has claimed. */
  let more = true;
  /** When the next delivery that only the store knows becomes due, as far as known. */
  let dueAt: number | null = null;
  let claiming = false;
  let renewing = false;
  /** After a failure: no claim before. */
  let notBefore = 0;
  let stop: string | null = null;
  let stopChanges = 0;
  let closed = false;
  /** Deliveries on their way back: a claim waits for them, or it would get them at once. */
  let handing: Promise<void> = Promise.resolve();
  /** Those that the store could not take back. */
  let unreturned: number[] = [];
  let underWay: Promise<void> = Promise.resolve();
  /** Attempts finished since the last look, and between the two before: starts come in bursts, and say nothing. */
  let finished = 0;
  let finishedBefore = 0;
  let lookedAt = clock.now();
  let cancelLook = clock.after(lookEveryMs, lookByItself);
  let cancelRetry: () => void = () => {};

  /** How many to have at hand: what may start now, and what will within `aheadMs` at the present speed. */
  function target(now: number): number {
    const perMs = (finishedBefore + finished) / (lookEveryMs + Math.max(0, now - lookedAt));
    return lane.room() + Math.min(lane.mostAhead(), Math.floor(perMs * aheadMs));
  }

  /** Claims when there is too little at hand; a stopped route only when `evenStopped`, to see whether it still is. */
  function refill(evenStopped = false): void {
    const now = clock.now();
    // More than one wait ahead: the clock was set back.
    notBefore = Math.min(notBefore, now + storeRetryMs);
    if (!wanted || closed || claiming || now < notBefore || (stop !== null && !evenStopped)) return;
    if (!more && (dueAt === null || dueAt > now)) return;
    const enough = target(now);
    const limit = Math.min(mostAtOnce, enough - held.readyCount());
    const maxBytes = mostBytes - held.readyBytes();
    if (limit <= 0 || maxBytes <= 0 || held.readyCount() > enough / 2) return;
    claiming = true;
    underWay = claim(limit, maxBytes).then((ok) => {
      claiming = false;
      if (ok) refill();
    });
  }

  async function claim(limit: number, maxBytes: number): Promise<boolean> {
    await handing;
    // From here on: what is offered while the store is asked may not be in its answer.
    more = false;
    dueAt = null;
    const sentAt = clock.now();
    const stopsBefore = stopChanges;
    let answer: Claim;
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

  /** What waits too long, and what could not go back before; not while a claim is under way that may give us just that. */
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

  function lookByItself(): void {
    const now = clock.now();
    held.setBack(now, now + leaseMs);
    handBackOld(now);
    if (!renewing) void renew(now);
    finishedBefore = finished;
    finished = 0;
    lookedAt = now;
    more = true;
    refill(true);
    cancelLook = clock.after(lookEveryMs, lookByItself);
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
      // The next look tries again: there is time for some six.
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
      const sentAt = clock.now();
      const claimNextMs = wanted && stop === null ? leaseMs : null;
      const answer = await store.settle(settlement, { holder, claimNextMs });
      finished += 1;
      // With that number there may be another one by now.
      if (claimed !== null && claimed.delivery.eventId === (eventId ?? claimed.delivery.eventId)) held.end(claimed);
      if (settled.to === "waiting") expect(settled.nextAt);
      more ||= answer.released;
      if (answer.next !== null) {
        held.take(answer.next, sentAt + leaseMs, clock.now());
        if (!wanted || stop !== null) handBack(held.dropReady());
      }
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
    offer(_event, at) {
      if (at <= clock.now()) more = true;
      else expect(at);
      refill();
    },
    lookAgain() {
      more = true;
      refill(true);
    },
    // While a claim is under way, or the store is not asked for a while, the queue wakes the lane.
    nextDueAt: () => (dueAt !== null && dueAt > clock.now() ? dueAt : null),
    stopReason: () => stop,
    async close() {
      closed = true;
      wanted = false;
      cancelLook();
      cancelRetry();
      await underWay;
      handBack(held.dropReady());
      await handing;
    },
  };
}
