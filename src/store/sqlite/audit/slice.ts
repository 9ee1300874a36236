import { stateCode } from "../codes.ts";
import type { Db } from "../open.ts";

/** Columns of an event, as raw rows come: an object for each would cost as much again as reading it. */
export const eventColumn = {
  seq: 0,
  source: 1,
  receivedAt: 2,
  disposition: 3,
  plan: 4,
  secret: 5,
  duplicates: 6,
  conflicts: 7,
  /** Bits: 1 about a message or run, 2 has `parked_until`, 4 has an id, 8 has a kind, 16 has a fault, 32 is one side of a release. */
  flags: 8,
} as const;
export const eventFlag = { subject: 1, parkedUntil: 2, id: 4, kind: 8, fault: 16, release: 32 } as const;

export const deliveryColumn = {
  event: 0,
  route: 1,
  state: 2,
  attempts: 3,
  /** Attempts written down. */
  tries: 4,
  /** Bits: 1 ordered, 2 has `next_at`, 4 has `settled_at`, 8 has a reason. */
  flags: 5,
} as const;
export const deliveryFlag = { ordered: 1, nextAt: 2, settledAt: 4, reason: 8 } as const;

export type EventRow = readonly (number | null)[];
export type DeliveryRow = readonly number[];

/** All rows of the events after `from` up to `to`, as they are at one moment. */
export interface Slice {
  readonly from: number;
  readonly to: number;
  readonly events: readonly EventRow[];
  readonly deliveries: readonly DeliveryRow[];
  readonly attempts: number;
}

/** Events of one slice: some 50 ms, for which the write-ahead log cannot be emptied (FACTS.md, "better-sqlite3"). */
export const sliceEvents = 20_000;

/** Reads slices, each in a transaction of its own. `look` sees the slice inside of it. */
export function createSlices(db: Db) {
  const begin = db.prepare("BEGIN");
  const commit = db.prepare("COMMIT");
  const end = db
    .prepare<[number, number], number>(`SELECT seq FROM events WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT 1 OFFSET ${sliceEvents - 1}`)
    .pluck();
  const events = db
    .prepare<[number, number], EventRow>(
      `SELECT seq, source, received_at, disposition, plan, secret, duplicates, conflicts,
         (subject IS NOT NULL) + 2 * (parked_until IS NOT NULL) + 4 * (id IS NOT NULL) + 8 * (kind IS NOT NULL) + 16 * (fault IS NOT NULL)
           + 32 * (release IS NOT NULL)
       FROM events WHERE seq > ? AND seq <= ? ORDER BY seq`,
    )
    .raw();
  const deliveries = db
    .prepare<[number, number], DeliveryRow>(
      `SELECT event, route, state, attempts, (SELECT count(*) FROM attempts a WHERE a.event = d.event AND a.route = d.route),
         (subject IS NOT NULL) + 2 * (next_at IS NOT NULL) + 4 * (settled_at IS NOT NULL) + 8 * (reason IS NOT NULL)
       FROM deliveries d WHERE event > ? AND event <= ? ORDER BY event, route`,
    )
    .raw();
  const attempts = db.prepare<[number, number], number>("SELECT count(*) FROM attempts WHERE event > ? AND event <= ?").pluck();

  return function read<T>(from: number, last: number, look: (slice: Slice) => T): T {
    begin.run();
    try {
      const to = end.get(from, last) ?? last;
      return look({
        from,
        to,
        events: events.all(from, to),
        deliveries: deliveries.all(from, to),
        attempts: attempts.get(from, to) ?? 0,
      });
    } finally {
      commit.run();
    }
  };
}

const { waiting, held, delivered, dead } = stateCode;
const { ordered, nextAt, settledAt, reason } = deliveryFlag;

/** Why a delivery's state and columns cannot both be true; null when they can. */
export function contradiction(row: DeliveryRow, isProxied: boolean): string | null {
  const flags = row[deliveryColumn.flags] as number;
  const has = (flag: number) => (flags & flag) !== 0;
  const attempts = row[deliveryColumn.attempts] as number;
  switch (row[deliveryColumn.state]) {
    case waiting:
      if (has(settledAt)) return "waits, and is settled";
      // What a proxied exchange came to is written by the exchange itself.
      return has(nextAt) || isProxied ? null : "waits for no time";
    case held:
      if (!has(ordered)) return "is held, and nothing orders it";
      return has(nextAt) || has(settledAt) ? "is held, and has a time" : null;
    case delivered:
      if (!has(settledAt) || has(nextAt)) return "is delivered, and its times say otherwise";
      return attempts === 0 ? "is delivered without an attempt" : null;
    case dead:
      if (!has(settledAt) || has(nextAt)) return "is dead, and its times say otherwise";
      return has(reason) ? null : "is dead for no reason";
    default:
      return `has the unknown state ${row[deliveryColumn.state]}`;
  }
}
