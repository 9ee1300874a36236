import type { AuditRule, DeliverySums, EventSums, Offender } from "../../../event/audit-report.ts";
import { dispositionList, stateList, unpackEventId } from "../codes.ts";
import type { Names } from "../names.ts";
import type { Db } from "../open.ts";

const dayMs = 86_400_000;

function noEvents(): EventSums {
  return { received: 0, forwarded: 0, filtered: 0, ignored: 0, quarantined: 0, parked: 0, unaccounted: 0, duplicates: 0, conflicts: 0 };
}

function noDeliveries(): DeliverySums {
  return { planned: 0, waiting: 0, held: 0, delivered: 0, dead: 0, swept: 0, unaccounted: 0 };
}

function addTo<T extends { readonly [K in keyof T]: number }>(sum: T, more: T): void {
  for (const key of Object.keys(sum) as (keyof T)[]) (sum as Record<keyof T, number>)[key] += more[key];
}

/** Adds up an audit: events by day and source, deliveries by route, and what breaks a rule. */
export function createTally(db: Db, names: Names, mostOffenders: number) {
  const idOf = db.prepare<[number], Buffer | string | null>("SELECT id FROM events WHERE seq = ?").pluck();
  const bySource = new Map<number, Map<number, EventSums>>();
  const byRoute = new Map<number, DeliverySums>();
  const broken = new Map<AuditRule, number>();
  const offenders: Offender[] = [];
  let last: { readonly source: number; readonly day: number; readonly sums: EventSums } | null = null;

  function sumsOf(source: number, day: number): EventSums {
    // Events come in order, so nearly all are of the day and source before.
    if (last !== null && last.source === source && last.day === day) return last.sums;
    let days = bySource.get(source);
    if (days === undefined) {
      days = new Map();
      bySource.set(source, days);
    }
    let sums = days.get(day);
    if (sums === undefined) {
      sums = noEvents();
      days.set(day, sums);
    }
    last = { source, day, sums };
    return sums;
  }

  return {
    event(source: number, receivedAt: number, disposition: number, isSound: boolean, duplicates: number, conflicts: number): void {
      const sums = sumsOf(source, Math.floor(receivedAt / dayMs));
      sums.received += 1;
      const word = dispositionList[disposition];
      if (isSound && word !== undefined) sums[word] += 1;
      else sums.unaccounted += 1;
      sums.duplicates += duplicates;
      sums.conflicts += conflicts;
    },
    route(route: number): DeliverySums {
      let sums = byRoute.get(route);
      if (sums === undefined) {
        sums = noDeliveries();
        byRoute.set(route, sums);
      }
      return sums;
    },
    state(sums: DeliverySums, state: number): void {
      const word = stateList[state];
      if (word === undefined) sums.unaccounted += 1;
      else sums[word] += 1;
    },
    /** `count`: of rows that one offender stands for. */
    offence(rule: AuditRule, event: number | null, route: number | null, what: string, count = 1): void {
      broken.set(rule, (broken.get(rule) ?? 0) + count);
      if (offenders.length >= mostOffenders) return;
      const eventId = event === null ? null : unpackEventId(idOf.get(event) ?? null);
      offenders.push({ rule, event, eventId, route: route === null ? null : nameIn(names, route), what });
    },
    result() {
      const events = noEvents();
      const days: (EventSums & { day: string; source: string })[] = [];
      for (const [source, byDay] of bySource) {
        for (const [day, sums] of byDay) {
          addTo(events, sums);
          days.push({ day: new Date(day * dayMs).toISOString().slice(0, 10), source: nameIn(names, source), ...sums });
        }
      }
      days.sort((a, b) => (a.day === b.day ? (a.source < b.source ? -1 : 1) : a.day < b.day ? -1 : 1));
      const deliveries = noDeliveries();
      const routes = [...byRoute].map(([route, sums]) => {
        addTo(deliveries, sums);
        return { route: nameIn(names, route), ...sums };
      });
      return { balanced: broken.size === 0, events, days, deliveries, routes, broken: Object.fromEntries(broken), offenders };
    },
  };
}

export type Tally = ReturnType<typeof createTally>;

/** A damaged file may have lost a name, too: that must not end the audit. */
export function nameIn(names: Names, id: number): string {
  try {
    return names.nameOf(id);
  } catch {
    return `(no name ${id})`;
  }
}
