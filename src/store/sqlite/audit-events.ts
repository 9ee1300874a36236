import { isProxyRoute } from "../../model/delivery.ts";
import type { Disposition } from "../../model/plan.ts";

import { isParked } from "../../track/parking.ts";
import type { Tally } from "../audit.ts";
import { createRowRules, deliveryFault, dispositionBy } from "../audit-rules.ts";
import type { Db } from "./file.ts";
import { dispositionList, hydrationCode, type Names } from "./names.ts";
import { createPlans } from "./plans.ts";

/** Columns of a raw event row. An object per row would cost as much as reading it. */
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
const eventFlag = { subject: 1, parkedUntil: 2, id: 4, kind: 8, fault: 16, release: 32 } as const;

export const deliveryColumn = {
  event: 0,
  route: 1,
  state: 2,
  attempts: 3,
  /** Stored attempts. */
  storedAttempts: 4,
  /** Bits: 1 ordered, 2 has `next_at`, 4 has `settled_at`, 8 has a reason. */
  flags: 5,
} as const;
const deliveryFlag = { ordered: 1, nextAt: 2, settledAt: 4, reason: 8 } as const;

type EventRow = readonly (number | null)[];
export type DeliveryRow = readonly number[];

/** All rows of the events after `from` up to `to`, as they are at one moment. */
interface Slice {
  readonly from: number;
  readonly to: number;
  readonly events: readonly EventRow[];
  readonly deliveries: readonly DeliveryRow[];
  readonly attempts: number;
}

/** Events per slice: about 50 ms, in which the write-ahead log cannot be emptied (FACTS.md, "better-sqlite3"). */
const sliceEvents = 20_000;

/** Reads slices, each in a transaction of its own, in which `look` runs. */
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

function faultOf(row: DeliveryRow, isProxied: boolean): string | null {
  const flags = row[deliveryColumn.flags] as number;
  const facts = {
    state: row[deliveryColumn.state] as number,
    attempts: row[deliveryColumn.attempts] as number,
    isOrdered: (flags & deliveryFlag.ordered) !== 0,
    hasNextAt: (flags & deliveryFlag.nextAt) !== 0,
    hasSettledAt: (flags & deliveryFlag.settledAt) !== 0,
    hasReason: (flags & deliveryFlag.reason) !== 0,
  };
  return deliveryFault(facts, isProxied);
}

interface AuditEventParts {
  readonly names: Names;
  readonly tally: Tally<number>;
  /** Deliveries settled before this time (unix ms) may have been purged. Null: none was. */
  readonly deletedBefore: () => number | null;
  /** The earliest time (unix ms) until which an event may still be parked. */
  readonly parkedSince: number;
}

/** Checks one event with its deliveries, and counts them. */
export function createAuditEvent(db: Db, { names, tally, deletedBefore, parkedSince }: AuditEventParts) {
  const rules = createRowRules(tally, parkedSince);
  const factsOf = createPlanFacts(db, names);
  const parkedUntil = db.prepare<[number], number | null>("SELECT parked_until FROM events WHERE seq = ?").pluck();
  const isHydrating = db.prepare<[number], number>(`SELECT 1 FROM hydrations WHERE event = ? AND state = ${hydrationCode.waiting}`).pluck();
  const proxied = new Map<number, boolean>();

  function isProxied(route: number): boolean {
    let known = proxied.get(route);
    if (known === undefined) {
      known = isProxyRoute(nameIn(names, route));
      proxied.set(route, known);
    }
    return known;
  }

  function soundEvent(row: EventRow): { readonly isSound: boolean; readonly deliver: readonly number[] } {
    const seq = row[eventColumn.seq] as number;
    const flags = row[eventColumn.flags] as number;
    const plan = row[eventColumn.plan] as number | null;
    const disposition = row[eventColumn.disposition] as number;
    const word = dispositionList[disposition];
    if ((word === "quarantined" || word === "released") && plan === null) {
      const isBare = flags === eventFlag.fault + (word === "released" ? eventFlag.release : 0);
      return { isSound: rules.body(seq, word, isBare), deliver: [] };
    }
    const facts = plan === null ? null : factsOf(plan);
    if (facts === null) return { isSound: rules.withoutPlan(seq, plan), deliver: [] };
    const until = (flags & eventFlag.parkedUntil) === 0 ? null : (parkedUntil.get(seq) ?? null);
    const isParkedRight = rules.parking(seq, facts.parks, until, () => isHydrating.get(seq) !== undefined);
    const expected = (flags & eventFlag.subject) === 0 ? facts.withoutSubject : facts.withSubject;
    return { isSound: rules.disposition(seq, word ?? `word ${disposition}`, expected) && isParkedRight, deliver: facts.deliver };
  }

  function delivery(row: DeliveryRow, isPlanned: boolean): boolean {
    const route = row[deliveryColumn.route] as number;
    const [event, attempts] = [row[deliveryColumn.event], row[deliveryColumn.attempts]] as [number, number];
    const storedAttempts = row[deliveryColumn.storedAttempts] as number;
    return rules.delivery({ event, route, attempts, storedAttempts }, isPlanned, faultOf(row, isProxied(route)));
  }

  /** Checks `deliveries` from `at` on. Returns the place after those of the event. `isCounted` is false outside of the filter. */
  return function auditEvent(row: EventRow, deliveries: readonly DeliveryRow[], at: number, isCounted: boolean): number {
    const seq = row[eventColumn.seq] as number;
    let next = at;
    while (next < deliveries.length && (deliveries[next] as DeliveryRow)[deliveryColumn.event] === seq) next += 1;
    if (!isCounted) return next;
    const { isSound, deliver } = soundEvent(row);
    let allSound = isSound;
    let place = at;
    const receivedAt = row[eventColumn.receivedAt] as number;
    for (const route of deliver) {
      const sums = tally.route(route);
      sums.planned += 1;
      while (place < next && ((deliveries[place] as DeliveryRow)[deliveryColumn.route] as number) < route) {
        allSound = delivery(deliveries[place] as DeliveryRow, false) && allSound;
        place += 1;
      }
      const found = place < next ? (deliveries[place] as DeliveryRow) : undefined;
      if (found !== undefined && found[deliveryColumn.route] === route) {
        place += 1;
        if (delivery(found, true)) tally.state(sums, found[deliveryColumn.state] as number);
        else {
          sums.unaccounted += 1;
          allSound = false;
        }
      } else if (receivedAt < (deletedBefore() ?? Number.NEGATIVE_INFINITY)) sums.deleted += 1;
      else {
        sums.unaccounted += 1;
        allSound = rules.missingDelivery(seq, route);
      }
    }
    for (; place < next; place += 1) allSound = delivery(deliveries[place] as DeliveryRow, false) && allSound;
    const duplicates = row[eventColumn.duplicates] as number;
    const conflicts = row[eventColumn.conflicts] as number;
    tally.event(row[eventColumn.source] as number, receivedAt, row[eventColumn.disposition] as number, allSound, duplicates, conflicts);
    return next;
  };
}

/** The consequences of one plan. */
interface PlanFacts {
  /** Numbers of the routes to deliver to, ascending. */
  readonly deliver: readonly number[];
  /** A route parked the event. */
  readonly parks: boolean;
  /** The disposition of events with and without a message or run. */
  readonly withSubject: Disposition;
  readonly withoutSubject: Disposition;
}

/** Stands for a route without a number, which never had a delivery. */
const unnumbered = -1;

/** Plans by number, or null. Many events share a plan, so each is read once. */
function createPlanFacts(db: Db, names: Names): (plan: number) => PlanFacts | null {
  const exists = db.prepare<[number], number>("SELECT 1 FROM plans WHERE id = ?").pluck();
  const plans = createPlans(db);
  const known = new Map<number, PlanFacts | null>();

  function look(plan: number): PlanFacts | null {
    if (exists.get(plan) === undefined) return null;
    const verdicts = plans.verdictsOf(plan);
    const deliver = verdicts.filter(([, verdict]) => verdict === "deliver").map(([route]) => names.find("route", route) ?? unnumbered);
    return {
      deliver: deliver.sort((a, b) => a - b),
      parks: isParked(verdicts),
      withSubject: dispositionBy(verdicts, true),
      withoutSubject: dispositionBy(verdicts, false),
    };
  }

  return (plan) => {
    let facts = known.get(plan);
    // A running relay may write a name after its plan, so it is looked up again.
    if (facts === undefined || facts?.deliver[0] === unnumbered) {
      facts = look(plan);
      known.set(plan, facts);
    }
    return facts;
  };
}

/** A damaged file may have lost a name. The audit must go on. */
export function nameIn(names: Names, id: number): string {
  try {
    return names.nameOf(id);
  } catch {
    return `(no name ${id})`;
  }
}
