import type { AuditRule, DeliverySums, EventSums, Offender } from "../../model/audit.ts";
import { type DeliveryState, deliveryStates } from "../../model/delivery.ts";
import { type Disposition, dispositions } from "../../model/plan.ts";

const dayMs = 86_400_000;

function noEvents(): EventSums {
  const words = { routed: 0, filtered: 0, ignored: 0, quarantined: 0, parked: 0, released: 0, unassigned: 0 };
  return { received: 0, ...words, unaccounted: 0, duplicates: 0, conflicts: 0 };
}

function noDeliveries(): DeliverySums {
  return { planned: 0, waiting: 0, held: 0, delivered: 0, dead: 0, deleted: 0, unaccounted: 0 };
}

function addTo<T extends { readonly [K in keyof T]: number }>(sum: T, more: T): void {
  for (const key of Object.keys(sum) as (keyof T)[]) (sum as Record<keyof T, number>)[key] += more[key];
}

interface TallyParts<Key> {
  /** The name of a source or route, by the engine's key. */
  readonly nameOf: (key: Key) => string;
  /** The id of the event that is being checked. Null: it has none. */
  readonly eventIdOf: (seq: number) => string | null;
  readonly mostOffenders: number;
}

/** Sums up an audit: events by day and source, deliveries by route, and broken rules. */
export function createTally<Key extends string | number>({ nameOf, eventIdOf, mostOffenders }: TallyParts<Key>) {
  const bySource = new Map<Key, Map<number, EventSums>>();
  const byRoute = new Map<Key, DeliverySums>();
  const broken = new Map<AuditRule, number>();
  const offenders: Offender[] = [];
  let last: { readonly source: Key; readonly day: number; readonly sums: EventSums } | null = null;

  function sumsOf(source: Key, day: number): EventSums {
    // Events come in order, so nearly all have the day and source of the one before.
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
    /** `disposition`: its place in the list of words. */
    event(source: Key, receivedAt: number, disposition: number, isSound: boolean, duplicates: number, conflicts: number): void {
      const sums = sumsOf(source, Math.floor(receivedAt / dayMs));
      sums.received += 1;
      const word: Disposition | undefined = dispositions[disposition];
      if (isSound && word !== undefined) sums[word] += 1;
      else sums.unaccounted += 1;
      sums.duplicates += duplicates;
      sums.conflicts += conflicts;
    },
    route(route: Key): DeliverySums {
      let sums = byRoute.get(route);
      if (sums === undefined) {
        sums = noDeliveries();
        byRoute.set(route, sums);
      }
      return sums;
    },
    state(sums: DeliverySums, state: number): void {
      const word: DeliveryState | undefined = deliveryStates[state];
      if (word === undefined) sums.unaccounted += 1;
      else sums[word] += 1;
    },
    /** `count`: the rows that one offender stands for. */
    offence(rule: AuditRule, event: number | null, route: Key | null, what: string, count = 1): void {
      broken.set(rule, (broken.get(rule) ?? 0) + count);
      if (offenders.length >= mostOffenders) return;
      const eventId = event === null ? null : eventIdOf(event);
      offenders.push({ rule, event, eventId, route: route === null ? null : nameOf(route), what });
    },
    result() {
      const events = noEvents();
      const days: (EventSums & { day: string; source: string })[] = [];
      for (const [source, byDay] of bySource) {
        for (const [day, sums] of byDay) {
          addTo(events, sums);
          days.push({ day: new Date(day * dayMs).toISOString().slice(0, 10), source: nameOf(source), ...sums });
        }
      }
      days.sort((a, b) => (a.day === b.day ? (a.source < b.source ? -1 : 1) : a.day < b.day ? -1 : 1));
      const deliveries = noDeliveries();
      const routes = [...byRoute].map(([route, sums]) => {
        addTo(deliveries, sums);
        return { route: nameOf(route), ...sums };
      });
      return { balanced: broken.size === 0, events, days, deliveries, routes, broken: Object.fromEntries(broken), offenders };
    },
  };
}

export type Tally<Key extends string | number> = ReturnType<typeof createTally<Key>>;

/** Tolerance for clocks that are set back a little. */
const slackMs = 60_000;

const beforeAll = { seq: 0, receivedAt: Number.NEGATIVE_INFINITY };

/**
 * Finds gaps between seqs. Each seq is used once, in order, so a missing one was deleted: by retention if it may have
 * reached that far, otherwise the event is missing. Unless numbers are `isGapless`, it may never have been used.
 */
export function createGaps<Key extends string | number>(
  tally: Tally<Key>,
  isFromStart: boolean,
  deletedBefore: () => number | null,
  gaplessAfter = 0,
) {
  let last: { readonly seq: number; readonly receivedAt: number } | null = isFromStart ? beforeAll : null;
  const gone = { deleted: 0, missing: 0 };

  return {
    /** Events in the order of their numbers. */
    next(seq: number, receivedAt: number, isCounted: boolean): void {
      const before = last;
      last = { seq, receivedAt };
      // What lies before the start of a range is unknown.
      const count = seq - (before?.seq ?? seq - 1) - 1;
      if (count === 0 || !isCounted) return;
      const deleted = deletedBefore();
      if (deleted !== null && Math.min(before?.receivedAt ?? receivedAt, receivedAt) <= deleted + slackMs) {
        gone.deleted += count;
        return;
      }
      if (seq <= gaplessAfter) return;
      gone.missing += count;
      const many = count === 1 ? `event ${seq - 1} is` : `events ${seq - count} to ${seq - 1} are`;
      tally.offence("event missing", seq - count, null, `${many} gone`, count);
    },
    result: () => gone,
  };
}
