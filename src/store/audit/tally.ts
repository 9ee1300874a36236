import type { AuditRule, DeliverySums, EventSums, Offender } from "../../model/audit.ts";
import { type DeliveryState, deliveryStates } from "../../model/delivery.ts";
import { type Disposition, dispositions, type KeptVerdict } from "../../model/plan.ts";

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

/** Parked events may end this much late, because many are ended a few at a time. */
export const lateMs = 5 * 60_000;
/** Tolerance for clocks that were set, or differ: otherwise events are stored in the order received. */
export const clockSlackMs = 3_600_000;

/** The disposition that the verdicts of its routes give an event. */
export function dispositionBy(verdicts: readonly KeptVerdict[], hasSubject: boolean): Disposition {
  const has = (word: KeptVerdict[1]): boolean => verdicts.some(([, verdict]) => verdict === word);
  if (has("deliver")) return "routed";
  if (has("park")) return "parked";
  // Without a message or run, this reason means that the event cannot be registered.
  return hasSubject && verdicts.some(([, , reason]) => reason === "untracked") ? "ignored" : "filtered";
}

interface AuditedDelivery<Key> {
  readonly event: number;
  readonly route: Key;
  /** As its row counts them. */
  readonly attempts: number;
  /** As they are stored. */
  readonly storedAttempts: number;
}

/** The rules about single rows. Each function returns false and reports an offence when its rule is broken. */
export function createRowRules<Key extends string | number>(tally: Tally<Key>, parkedSince: number) {
  function offends(rule: AuditRule, event: number, route: Key | null, what: string): false {
    tally.offence(rule, event, route, what);
    return false;
  }

  return {
    offends,
    /** `isBare`: the row has what only a quarantined or released body has. */
    body(seq: number, disposition: Disposition, isBare: boolean): boolean {
      return isBare || offends("wrong disposition", seq, null, `is ${disposition}, and has what only an event with a valid envelope has`);
    },
    withoutPlan(seq: number, plan: string | number | null): false {
      return offends("event without plan", seq, null, plan === null ? "has no plan" : `has the plan ${plan}, which is not there`);
    },
    /** An event is parked until a time or until its hydration ends, and only while a route waits for it. */
    parking(seq: number, parks: boolean, parkedUntil: number | null, isHydrating: () => boolean): boolean {
      if (parks && parkedUntil === null) return isHydrating() || offends("parking broken", seq, null, "is parked, and nothing ends that");
      if (parkedUntil === null) return true;
      if (!parks) return offends("parking broken", seq, null, "is parked until a time, and no route waits for it");
      return parkedUntil >= parkedSince || offends("parked too long", seq, null, `was parked until ${new Date(parkedUntil).toISOString()}`);
    },
    disposition(seq: number, is: string, expected: Disposition): boolean {
      return is === expected || offends("wrong disposition", seq, null, `is ${is}; by the verdicts of its routes it is ${expected}`);
    },
    /** `fault`: why the row contradicts itself. */
    delivery({ event, route, attempts, storedAttempts }: AuditedDelivery<Key>, isPlanned: boolean, fault: string | null): boolean {
      let isSound = isPlanned || offends("delivery not planned", event, route, "is there, and the route's verdict was not to deliver");
      if (fault !== null) isSound = offends("delivery contradicts itself", event, route, fault);
      if (attempts !== storedAttempts) {
        isSound = offends("attempts miscounted", event, route, `says ${attempts} attempts, and ${storedAttempts} were written down`);
      }
      return isSound;
    },
    missingDelivery: (event: number, route: Key): false =>
      offends("delivery missing", event, route, "was to be delivered, and there is no delivery"),
  };
}

/**
 * Checks the usage counts of secrets against the stored events, both by source and secret. Retention lowers the events and
 * not the counts. Duplicates are not checked: they may have come with another secret. `accepted`: how many events there
 * have ever been.
 */
export function checkUsage<Key extends string | number>(
  tally: Tally<Key>,
  counted: ReadonlyMap<string, number>,
  stored: ReadonlyMap<string, number>,
  accepted: number,
): void {
  const all = [...counted.values()].reduce((sum, events) => sum + events, 0);
  if (all > accepted) {
    tally.offence("secret usage differs", null, null, `secrets verified ${all} events, but only ${accepted} were accepted`);
  }
  for (const [name, events] of stored) {
    const known = counted.get(name) ?? 0;
    if (known >= events) continue;
    tally.offence("secret usage differs", null, null, `${events} events by source and secret ${name} are stored, and ${known} are counted`);
  }
}
