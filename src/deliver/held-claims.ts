import type { StoredDelivery } from "../model/delivery.ts";

/** A delivery leased to this process. */
interface HeldClaim {
  readonly event: number;
  readonly delivery: StoredDelivery;
  /** Unix ms at which this process treats the lease as expired. */
  readonly until: number;
}

interface Entry extends HeldClaim {
  until: number;
  takenAt: number;
  state: "ready" | "started" | "ended";
  lost: boolean;
}

/**
 * The deliveries leased to this process. Those that wait for a start keep the order they came in.
 *
 * | state | meaning | becomes |
 * |---|---|---|
 * | `ready` | waits for a start | `started`, or `ended` (dropped, or its lease expired before it started) |
 * | `started` | its attempt is in flight or not settled yet | `ended` |
 */
export function createHeldClaims() {
  const claims = new Map<number, Entry>();
  let ready: Entry[] = [];
  let bytes = 0;
  let lapsed: number[] = [];

  function drop(entry: Entry): void {
    if (entry.state === "ready") bytes -= entry.delivery.body.length;
    entry.state = "ended";
    if (claims.get(entry.event) === entry) claims.delete(entry.event);
  }

  function dropWhere(matches: (entry: Entry) => boolean): number[] {
    const dropped = ready.filter(matches);
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
      // The lease expired and was claimed again here while the attempt is in flight: one attempt is enough. A settled
      // attempt would have raised `attempts`, and if the store had lost the event, its number would name another.
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
    /** The next that may start. Drops those whose lease has expired. */
    next(now: number): StoredDelivery | null {
      for (let first = ready[0]; first !== undefined; first = ready[0]) {
        if (first.state === "ready" && first.until > now) return first.delivery;
        if (first.state === "ready") lapsed.push(first.event);
        drop(first);
        ready.shift();
      }
      return null;
    },
    /** Events whose lease expired before they could start, since the last call. The store may not have leased them again. */
    takeLapsed(): number[] {
      const events = lapsed;
      lapsed = [];
      return events;
    },
    /** Starts the one that `next` returned. */
    start(): void {
      const entry = ready.shift();
      if (entry === undefined) return;
      entry.state = "started";
      bytes -= entry.delivery.body.length;
    },
    find: (event: number): HeldClaim | null => claims.get(event) ?? null,
    /** The attempt was settled, or the delivery handed back. */
    end(claimed: HeldClaim): void {
      drop(claimed as Entry);
    },
    /** Drops all that wait for a start; returns their events. */
    dropReady: (): number[] => dropWhere(() => true),
    /** Drops those that have waited for a start since `at` or longer. */
    dropOlder: (at: number): number[] => dropWhere(({ takenAt }) => takenAt <= at),
    /** Caps lease ends at `until` and claim times at `now`: later ones mean that the clock was set back. */
    setBack(now: number, until: number): void {
      for (const entry of claims.values()) {
        entry.until = Math.min(entry.until, until);
        entry.takenAt = Math.min(entry.takenAt, now);
      }
    },
    /** Leases to renew. Copies, so that `renewed` can check that the lease is still the same. */
    endingBefore: (at: number): HeldClaim[] =>
      [...claims.values()]
        .filter(({ until, lost }) => !lost && until < at)
        .map(({ event, delivery, until }) => ({ event, delivery, until })),
    /** A lease was renewed until `until`, or is lost (null). */
    renewed(claimed: HeldClaim, until: number | null): void {
      const entry = claims.get(claimed.event);
      if (entry === undefined || entry.delivery !== claimed.delivery || entry.until !== claimed.until) return;
      if (until !== null) entry.until = until;
      else if (entry.state === "ready") dropWhere((other) => other === entry);
      else entry.lost = true;
    },
  };
}
