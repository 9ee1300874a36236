import type { Settlement, StoredDelivery } from "../event/stored-delivery.ts";

/**
 * What `claim-queue.ts` needs of a store that many processes share.
 *
 * A claimed delivery is its holder's until the lease runs out; then whoever claims next may have it.
 * Leases are measured on the store's clock, in milliseconds from the call, so that hosts whose clocks
 * differ take nothing from one another. `holder` names one queue of one process, and no other ever.
 * Every call may reject (the store is down): the outcome is then unknown, and the call may be repeated.
 */
export interface ClaimStore {
  /** Leases the deliveries of a route due at `now` (unix ms), soonest first, leases that ran out included. */
  claim(route: string, request: ClaimRequest): Promise<Claim>;
  /** Leases these for `leaseMs` from now; gives the events that are the holder's no more. */
  renew(route: string, events: readonly number[], holder: string, leaseMs: number): Promise<readonly number[]>;
  /** Ends the leases: the deliveries wait where they stood among those due. Of others' leases nothing changes. */
  handBack(route: string, events: readonly number[], holder: string): Promise<void>;
  /** Writes what came of an attempt, once it is durable, and ends the lease. */
  settle(settlement: Settlement, claim: SettledClaim): Promise<SettleAnswer>;
}

interface ClaimRequest {
  /** Unix ms on the claimer's clock: what is due by then. */
  readonly now: number;
  /** Most deliveries; at least 1. */
  readonly limit: number;
  /** Sum of the bodies, in bytes, after which no more are given; the first is given whatever its size. */
  readonly maxBytes: number;
  readonly leaseMs: number;
  readonly holder: string;
}

export interface Claim {
  readonly deliveries: readonly StoredDelivery[];
  /** True when more were due than were given. */
  readonly more: boolean;
  /** Unix ms at which the next one becomes due; null when none waits. Unless `more`. */
  readonly nextDueAt: number | null;
  /** Why the destination is stopped, when nothing is given for that; null when it is not. */
  readonly stopped: string | null;
}

interface SettledClaim {
  readonly holder: string;
  /** The delivery that this one held back is claimed at once for so long; null: whoever claims first has it. */
  readonly claimNextMs: number | null;
}

interface SettleAnswer {
  /**
   * False: the lease is another's by now, or `attempt.number` is not one more than the attempts the
   * delivery has (this call is a repeat): nothing was written but `stop`. A lease that ran out and that nobody took is still good.
   */
  readonly written: boolean;
  /** The delivery this one held back, claimed for the holder. */
  readonly next: StoredDelivery | null;
  /** True when one was released and not claimed: a claim will find it. */
  readonly released: boolean;
}

/** A delivery leased to this process. */
interface HeldClaim {
  readonly event: number;
  readonly delivery: StoredDelivery;
  /** Unix ms at which the lease is over, at the latest that this process may believe. */
  readonly until: number;
}

interface Entry extends HeldClaim {
  until: number;
  takenAt: number;
  state: "ready" | "started" | "gone";
  lost: boolean;
}

/**
 * The deliveries leased to this process, those that wait for a start in the order they came.
 *
 * | state | meaning | becomes |
 * |---|---|---|
 * | `ready` | waits for a start | `started`, or `gone` (dropped, or its lease is over: it is not started any more) |
 * | `started` | its attempt is under way, or not yet settled | `gone` |
 */
export function createHeldClaims() {
  const claims = new Map<number, Entry>();
  let ready: Entry[] = [];
  let bytes = 0;
  let lapsed: number[] = [];

  function drop(entry: Entry): void {
    if (entry.state === "ready") bytes -= entry.delivery.body.length;
    entry.state = "gone";
    if (claims.get(entry.event) === entry) claims.delete(entry.event);
  }

  function dropWhere(isMeant: (entry: Entry) => boolean): number[] {
    const dropped = ready.filter(isMeant);
    if (dropped.length === 0) return [];
    for (const entry of dropped) drop(entry);
    ready = ready.filter(({ state }) => state === "ready");
    return dropped.map(({ event }) => event);
  }

  return {
    readyCount: () => ready.length,
    readyBytes: () => bytes,
    /** A delivery was leased until `until`. */
    take(delivery: StoredDelivery, until: number, now: number): void {
      const { event } = delivery;
      const known = claims.get(event);
      // Its lease ran out and came back to us while its attempt goes on: one attempt is enough. Had that
      // been settled meanwhile (its answer is on the way), the delivery would have more attempts. And had the store lost
      // it, another event would have its number.
      if (known?.delivery.eventId === delivery.eventId && known.delivery.attempts === delivery.attempts) {
        known.until = until;
        known.lost = false;
        return;
      }
      const entry: Entry = { event, delivery, until, takenAt: now, state: "ready", lost: false };
      claims.set(event, entry);
      ready.push(entry);
      bytes += delivery.body.length;
    },
    /** The next that may start; those whose lease is over are somebody else's by now, and dropped. */
    next(now: number): StoredDelivery | null {
      for (let first = ready[0]; first !== undefined; first = ready[0]) {
        if (first.state === "ready" && first.until > now) return first.delivery;
        if (first.state === "ready") lapsed.push(first.event);
        drop(first);
        ready.shift();
      }
      return null;
    },
    /** Events whose lease was over before they could start, since the last call: the store may not have given them to anybody. */
    takeLapsed(): number[] {
      const events = lapsed;
      lapsed = [];
      return events;
    },
    /** The one that `next` gave is started. */
    start(): void {
      const entry = ready.shift();
      if (entry === undefined) return;
      entry.state = "started";
      bytes -= entry.delivery.body.length;
    },
    find: (event: number): HeldClaim | null => claims.get(event) ?? null,
    /** Its attempt is settled, or the delivery given back. */
    end(claimed: HeldClaim): void {
      drop(claimed as Entry);
    },
    /** Drops all that wait for a start; gives their events. */
    dropReady: (): number[] => dropWhere(() => true),
    /** Drops those that have waited for a start since `at` or longer. */
    dropOlder: (at: number): number[] => dropWhere(({ takenAt }) => takenAt <= at),
    /** No lease ends after `until`, and none was taken after `now`: where it looks so, the clock was set back. */
    setBack(now: number, until: number): void {
      for (const entry of claims.values()) {
        entry.until = Math.min(entry.until, until);
        entry.takenAt = Math.min(entry.takenAt, now);
      }
    },
    /** Leases to renew. A copy of each: what comes of it is news only while the lease is the same. */
    endingBefore: (at: number): HeldClaim[] =>
      [...claims.values()]
        .filter(({ until, lost }) => !lost && until < at)
        .map(({ event, delivery, until }) => ({ event, delivery, until })),
    /** A lease goes on until `until`, or is lost (null). */
    renewed(claimed: HeldClaim, until: number | null): void {
      const entry = claims.get(claimed.event);
      if (entry === undefined || entry.delivery !== claimed.delivery || entry.until !== claimed.until) return;
      if (until !== null) entry.until = until;
      else if (entry.state === "ready") dropWhere((other) => other === entry);
      else entry.lost = true;
    },
  };
}
