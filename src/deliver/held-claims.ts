import type { StoredDelivery } from "../event/stored-delivery.ts";

/** A delivery leased to this process. */
export interface HeldClaim {
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
