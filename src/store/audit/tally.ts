import { type AuditRule, type DeliverySums, deliverySums, type EventSums, eventSums, type Offender } from "../../model/audit.ts";
import { dispositions } from "../../model/states.ts";
import { compareTexts } from "../sql/ops.ts";

const dayMs = 86_400_000;

const zeros = <Sums>(fields: object) => Object.fromEntries(Object.keys(fields).map((name) => [name, 0])) as Sums;
const noEvents = () => zeros<EventSums>(eventSums);
const noDeliveries = () => zeros<DeliverySums>(deliverySums);

function addTo<T extends { readonly [K in keyof T]: number }>(sum: T, more: T): void {
  for (const key of Object.keys(sum) as (keyof T)[]) (sum as Record<keyof T, number>)[key] += more[key];
}

function under<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key) ?? make();
  map.set(key, known);
  return known;
}

export function createTally(mostOffenders: number) {
  const bySource = new Map<string, Map<number, EventSums>>();
  const byRoute = new Map<string, DeliverySums>();
  const broken = new Map<AuditRule, number>();
  const offenders: Omit<Offender, "eventId">[] = [];

  return {
    event(source: string, receivedAt: number, disposition: number, isSound: boolean, duplicates: number, conflicts: number): void {
      const days = under(bySource, source, () => new Map<number, EventSums>());
      const sums = under(days, Math.floor(receivedAt / dayMs), noEvents);
      sums.received += 1;
      const word = dispositions[disposition];
      if (isSound && word !== undefined) sums[word] += 1;
      else sums.unaccounted += 1;
      sums.duplicates += duplicates;
      sums.conflicts += conflicts;
    },
    route: (route: string): DeliverySums => under(byRoute, route, noDeliveries),
    /** `count`: the rows that one offender stands for. */
    offence(rule: AuditRule, event: number | null, route: string | null, what: string, count = 1): void {
      broken.set(rule, (broken.get(rule) ?? 0) + count);
      if (offenders.length < mostOffenders) offenders.push({ rule, event, route, what });
    },
    result() {
      const events = noEvents();
      const days: (EventSums & { day: string; source: string })[] = [];
      for (const [source, byDay] of bySource) {
        for (const [day, sums] of byDay) {
          addTo(events, sums);
          days.push({ day: new Date(day * dayMs).toISOString().slice(0, 10), source, ...sums });
        }
      }
      days.sort((a, b) => compareTexts(a.day, b.day) || compareTexts(a.source, b.source));
      const deliveries = noDeliveries();
      const routes = [...byRoute].map(([route, sums]) => {
        addTo(deliveries, sums);
        return { route, ...sums };
      });
      return { balanced: broken.size === 0, events, days, deliveries, routes, broken: Object.fromEntries(broken), offenders };
    },
  };
}

export type Tally = ReturnType<typeof createTally>;

const slackMs = 60_000;

/**
 * Each seq is used once, in order: retention deleted a missing one, or the event is missing. Up to `gaplessAfter` it may never
 * have been used.
 */
export function createGaps(tally: Tally, isFromStart: boolean, deletedBefore: number | null, gaplessAfter: number) {
  let last = isFromStart ? { seq: 0, receivedAt: Number.NEGATIVE_INFINITY } : null;
  const gone = { deleted: 0, missing: 0 };

  return {
    gone,
    next(seq: number, receivedAt: number, isCounted: boolean): void {
      const before = last;
      last = { seq, receivedAt };
      const count = seq - (before?.seq ?? seq - 1) - 1;
      if (count === 0 || !isCounted) return;
      if (deletedBefore !== null && Math.min(before?.receivedAt ?? receivedAt, receivedAt) <= deletedBefore + slackMs) {
        gone.deleted += count;
        return;
      }
      if (seq <= gaplessAfter) return;
      gone.missing += count;
      const many = count === 1 ? `event ${seq - 1} is` : `events ${seq - count} to ${seq - 1} are`;
      tally.offence("event missing", seq - count, null, `${many} gone`, count);
    },
  };
}
