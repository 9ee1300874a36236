import {
  type AuditRule,
  type DeliverySums,
  deliverySums,
  type EventSums,
  eventSums,
  type Offender,
} from "../../model/audit.ts";
import { auditedSeries, hourMs, statusLabel } from "../../model/history.ts";
import { countIn, kept } from "../../model/maps.ts";
import { dispositions } from "../../model/states.ts";
import { runStatusOf } from "../../model/statuses.ts";
import { literals } from "../schema/ddl.ts";
import { counters } from "../schema/tables.ts";
import { compareTexts, first, query, together, type Work } from "../sql/ops.ts";
import { as, raw, type Sql, select, sql, typed } from "../sql/sql.ts";
import { atOfHour, minutesPerHour, outcomeOfRow } from "../work/counts.ts";
import type { PurgedTable } from "../work/state-rows.ts";
import type { EventRow, Slice } from "./slices.ts";

const dayMs = 86_400_000;

const zeros = <Sums>(fields: object) =>
  Object.fromEntries(Object.keys(fields).map((name) => [name, 0])) as Sums;
const noEvents = () => zeros<EventSums>(eventSums);
const noDeliveries = () => zeros<DeliverySums>(deliverySums);

function addTo<T extends { readonly [K in keyof T]: number }>(sum: T, more: T): void {
  for (const key of Object.keys(sum) as (keyof T)[])
    (sum as Record<keyof T, number>)[key] += more[key];
}

export function createTally(mostOffenders = 100) {
  const bySource = new Map<string, Map<number, EventSums>>();
  const byRoute = new Map<string, DeliverySums>();
  const broken = new Map<AuditRule, number>();
  const offenders: Omit<Offender, "eventId">[] = [];

  return {
    event(
      source: string,
      receivedAt: number,
      disposition: number,
      isSound: boolean,
      duplicates: number,
      conflicts: number,
    ): void {
      const days = kept(bySource, source, () => new Map<number, EventSums>());
      const sums = kept(days, Math.floor(receivedAt / dayMs), noEvents);
      sums.received += 1;
      const word = dispositions[disposition];
      if (isSound && word !== undefined) sums[word] += 1;
      else sums.unaccounted += 1;
      sums.duplicates += duplicates;
      sums.conflicts += conflicts;
    },
    route: (route: string): DeliverySums => kept(byRoute, route, noDeliveries),
    /** `count`: the rows that one offender stands for. */
    offence(
      rule: AuditRule,
      event: number | null,
      route: string | null,
      what: string,
      count = 1,
    ): void {
      countIn(broken, rule, count);
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
      return {
        balanced: broken.size === 0,
        events,
        days,
        deliveries,
        routes,
        broken: Object.fromEntries(broken),
        offenders,
      };
    },
  };
}

export type Tally = ReturnType<typeof createTally>;

const slackMs = 60_000;

/**
 * Each seq is used once, in order: retention deleted a missing one, or the event is missing. Up to
 * `gaplessAfter` it may never have been used.
 */
export function createGaps(
  tally: Tally,
  isFromStart: boolean,
  deletedBefore: number | null,
  gaplessAfter: number,
) {
  let last = isFromStart ? { seq: 0, receivedAt: Number.NEGATIVE_INFINITY } : null;
  const gone = { deleted: 0, missing: 0 };

  return {
    gone,
    next(seq: number, receivedAt: number, isCounted: boolean): void {
      const before = last;
      last = { seq, receivedAt };
      const count = seq - (before?.seq ?? seq - 1) - 1;
      if (count === 0 || !isCounted) return;
      if (
        deletedBefore !== null &&
        Math.min(before?.receivedAt ?? receivedAt, receivedAt) <= deletedBefore + slackMs
      ) {
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

type Series = (typeof auditedSeries)[number];
type Fields = Map<string, number>;

const c = as(counters, "c");
const place = select({ at: c.at });
const counted = select({
  series: c.series,
  of: c.of,
  label: c.label,
  n: typed<number>(raw("sum(c.n)", "sum(c.n)::bigint")),
});
const isAudited = raw(`c.series IN (${literals(auditedSeries)})`);

const fieldOf = (series: string, of: string, label: string): string =>
  `${series} of ${of}:${label}`;

export function createHistoryAudit(tally: Tally) {
  const stored = new Map<number, Fields>();

  function add(series: Series, at: number, of: string, label: string): void {
    countIn(
      kept(stored, Math.floor(at / hourMs), () => new Map<string, number>()),
      fieldOf(series, of, label),
    );
  }

  function addEvent({ source, receivedAt, disposition, moved, status, kind }: EventRow): void {
    add("events", receivedAt, source, dispositions[disposition] ?? String(disposition));
    if (moved !== 1 || status === null) return;
    add(
      "transitions",
      receivedAt,
      source,
      statusLabel(runStatusOf(kind ?? "") === null ? "message" : "run", status),
    );
  }

  return {
    count({ events, settled, attempts }: Slice): void {
      for (const row of events) addEvent(row);
      // Node cannot read `of` after `const`.
      for (const tried of [settled, attempts])
        for (const list of tried.values())
          for (const { at, route, status, error } of list)
            if (at !== null) add("attempts", at, route, outcomeOfRow(status, error));
    },
    /** An hour that retention may have reached is not compared. */
    *check({
      history,
      events,
      deliveries,
    }: Readonly<Record<PurgedTable, number | null>>): Work<void> {
      const ofEvents = Math.max(history ?? 0, events ?? 0);
      const ofAttempts = Math.max(history ?? 0, deliveries === null ? 0 : deliveries + slackMs);
      const since = { events: ofEvents, transitions: ofEvents, attempts: ofAttempts };

      function compare(hour: number, counts: Fields): void {
        const has = stored.get(hour) ?? new Map<string, number>();
        stored.delete(hour);
        for (const field of new Set([...has.keys(), ...counts.keys()])) {
          const series = field.slice(0, field.indexOf(" ")) as Series;
          const [found, count] = [has.get(field) ?? 0, counts.get(field) ?? 0];
          if (found === count || hour * hourMs < since[series]) continue;
          const what = `${field} from ${new Date(hour * hourMs).toISOString()}: ${found} are stored, and ${count} are counted`;
          tally.offence("history differs", null, null, what);
        }
      }

      // A thousand routes have millions of counts.
      let hour = yield* nextHour(Math.ceil(Math.min(ofEvents, ofAttempts) / hourMs));
      while (hour !== null) {
        compare(hour, yield* countsOf(hour));
        hour = yield* nextHour(hour + 1);
      }
      for (const hour of [...stored.keys()]) compare(hour, new Map());
    },
  };
}

function* nextHour(from: number): Work<number | null> {
  const hour = Math.max(1, from);
  const minute = yield* first(
    place`FROM counters c WHERE c.at >= ${hour * minutesPerHour} ORDER BY c.at LIMIT 1`,
  );
  const rolled = yield* first(
    place`FROM counters c WHERE c.at <= ${atOfHour(hour * minutesPerHour)} ORDER BY c.at DESC LIMIT 1`,
  );
  const hours = [minute, rolled].flatMap((row) =>
    row === null ? [] : [Math.floor(Math.abs(row.at) / minutesPerHour)],
  );
  return hours.length === 0 ? null : Math.min(...hours);
}

function* countsOf(hour: number): Work<Fields> {
  const begin = hour * minutesPerHour;
  const ofRange = (range: Sql) =>
    query(
      counted`FROM counters c WHERE ${range} AND ${isAudited} GROUP BY c.series, c.of, c.label`,
    );
  const lists = yield* together([
    ofRange(sql`c.at >= ${begin} AND c.at < ${begin + minutesPerHour}`),
    ofRange(sql`c.at = ${atOfHour(begin)}`),
  ]);
  const fields: Fields = new Map();
  for (const { series, of, label, n } of lists.flat())
    countIn(fields, fieldOf(series, of, label), n);
  return fields;
}
