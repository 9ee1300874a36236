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

export interface ClaimRequest {
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

export interface SettledClaim {
  readonly holder: string;
  /** The delivery that this one held back is claimed at once for so long; null: whoever claims first has it. */
  readonly claimNextMs: number | null;
}

export interface SettleAnswer {
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
