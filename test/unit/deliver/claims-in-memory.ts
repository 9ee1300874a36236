import type { ClaimStore } from "../../../src/deliver/claim-queue.ts";
import type { ClaimedDeliveries, Settlement, StoredDelivery } from "../../../src/model/delivery.ts";

import type { EventId } from "../../../src/model/ids.ts";

export interface ClaimedRow {
  readonly event: number;
  readonly subject: number;
  state: "waiting" | "held" | "delivered" | "dead";
  nextAt: number;
  attempts: number;
  lease: { holder: string; until: number } | null;
}

/** A store that many queues of one route claim from, in memory; the contract of `ClaimStore`. */
export function createClaimsInMemory(now: () => number, bodyBytes = 2) {
  const rows = new Map<number, ClaimedRow>();
  const calls = { claim: 0, renew: 0, handBack: 0, settle: 0 };
  const settlements: Settlement[] = [];
  let stop: string | null = null;
  let fault: Error | null = null;

  function answering(name: keyof typeof calls): void {
    calls[name] += 1;
    if (fault !== null) throw fault;
  }

  const isOpen = ({ state }: ClaimedRow) => state === "waiting" || state === "held";
  const isFree = ({ lease }: ClaimedRow) => lease === null || lease.until <= now();

  function load(row: ClaimedRow): StoredDelivery {
    return {
      route: "r",
      event: row.event,
      account: "main",
      source: "main",
      eventId: `e${row.event}` as EventId,
      kind: "message.status",
      origin: "webhook",
      receivedAt: 0,
      body: Buffer.alloc(bodyBytes),
      headers: {},
      attempts: row.attempts,
      spent: row.attempts,
      replays: 0,
      subject: null,
    };
  }

  const store: ClaimStore = {
    async claim(_route, { now: at, limit, maxBytes, leaseMs, holder }): Promise<ClaimedDeliveries> {
      answering("claim");
      const due = [...rows.values()].filter((row) => row.state === "waiting" && row.nextAt <= at && isFree(row));
      due.sort((a, b) => a.nextAt - b.nextAt || a.event - b.event);
      const given = stop === null ? due.slice(0, Math.max(1, Math.min(limit, Math.floor(maxBytes / bodyBytes)))) : [];
      for (const row of given) row.lease = { holder, until: now() + leaseMs };
      const later = [...rows.values()].filter((row) => row.state === "waiting" && isFree(row) && row.nextAt > at);
      const nextDueAt = later.length === 0 ? null : Math.min(...later.map(({ nextAt }) => nextAt));
      return { deliveries: given.map(load), more: stop === null && due.length > given.length, nextDueAt, stopped: stop };
    },
    async renew(_route, events, holder, leaseMs) {
      answering("renew");
      return events.filter((event) => {
        const lease = rows.get(event)?.lease;
        if (lease?.holder !== holder) return true;
        lease.until = now() + leaseMs;
        return false;
      });
    },
    async handBack(_route, events, holder) {
      answering("handBack");
      for (const event of events) {
        const row = rows.get(event);
        if (row?.lease?.holder === holder) row.lease = null;
      }
    },
    async settle(settlement, holder) {
      answering("settle");
      if (settlement.stop !== undefined) stop = settlement.stop;
      const row = rows.get(settlement.event);
      if (row?.lease?.holder !== holder || row.attempts + 1 !== settlement.attempt.number) return null;
      settlements.push(settlement);
      row.lease = null;
      row.attempts += 1;
      row.state = settlement.settled.to;
      if (settlement.settled.to === "waiting") {
        row.nextAt = settlement.settled.nextAt;
        return null;
      }
      const next = [...rows.values()].find((other) => other.subject === row.subject && other.state === "held");
      if (next === undefined) return null;
      next.state = "waiting";
      next.nextAt = settlement.at;
      return next.event;
    },
  };

  return {
    store,
    rows,
    calls,
    settlements,
    /** Plans the next delivery; it is held while an earlier one of its subject is open. */
    plan(subject: number, at = now()): ClaimedRow {
      const isHeld = [...rows.values()].some((row) => row.subject === subject && isOpen(row));
      const row: ClaimedRow = { event: rows.size + 1, subject, state: isHeld ? "held" : "waiting", nextAt: at, attempts: 0, lease: null };
      rows.set(row.event, row);
      return row;
    },
    open: () => [...rows.values()].filter(isOpen),
    leased: () => [...rows.values()].filter((row) => !isFree(row)).map(({ event }) => event),
    fail: (error: Error | null) => {
      fault = error;
    },
    resume: () => {
      stop = null;
    },
  };
}
