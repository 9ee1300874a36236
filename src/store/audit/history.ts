import { auditedSeries, hourMs, statusLabel } from "../../model/history.ts";
import { dispositions } from "../../model/states.ts";
import { runStatusOf } from "../../model/statuses.ts";
import { counters } from "../schema/tables.ts";
import { first, query, together, type Work } from "../sql/ops.ts";
import { as, raw, type Sql, select, sql, typed } from "../sql/sql.ts";
import { atOfHour, minutesPerHour, outcomeOfRow } from "../work/counts.ts";
import type { PurgedTable } from "../work/state-rows.ts";
import type { EventRow, Slice } from "./slices.ts";
import type { Tally } from "./tally.ts";

type Series = (typeof auditedSeries)[number];
type Fields = Map<string, number>;

/** A clock may have been set between an attempt and the settlement by which retention deletes it. */
const slackMs = 60_000;

const c = as(counters, "c");
const place = select({ at: c.at });
const counted = select({ series: c.series, of: c.of, label: c.label, n: typed<number>(raw("sum(c.n)", "sum(c.n)::bigint")) });
const isAudited = sql`c.series IN (${raw(auditedSeries.map((name) => `'${name}'`).join(", "))})`;

const fieldOf = (series: string, of: string, label: string): string => `${series} of ${of}:${label}`;

export function createHistoryAudit(tally: Tally) {
  const stored = new Map<number, Fields>();

  function add(series: Series, at: number, of: string, label: string): void {
    const hour = Math.floor(at / hourMs);
    const fields = stored.get(hour) ?? new Map<string, number>();
    stored.set(hour, fields);
    addTo(fields, fieldOf(series, of, label), 1);
  }

  function addEvent({ source, receivedAt, disposition, moved, status, kind }: EventRow): void {
    add("events", receivedAt, source, dispositions[disposition] ?? String(disposition));
    if (moved !== 1 || status === null) return;
    add("transitions", receivedAt, source, statusLabel(runStatusOf(kind ?? "") === null ? "message" : "run", status));
  }

  return {
    count({ events, settled, attempts }: Slice): void {
      for (const row of events) addEvent(row);
      // Node cannot read `of` after `const`.
      for (const tried of [settled, attempts])
        for (const list of tried.values())
          for (const { at, route, status, error } of list) if (at !== null) add("attempts", at, route, outcomeOfRow(status, error));
    },
    /** An hour that retention may have reached is not compared. */
    *check({ history, events, deliveries }: Readonly<Record<PurgedTable, number | null>>): Work<void> {
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
  const minute = yield* first(place`FROM counters c WHERE c.at >= ${hour * minutesPerHour} ORDER BY c.at LIMIT 1`);
  const rolled = yield* first(place`FROM counters c WHERE c.at <= ${atOfHour(hour * minutesPerHour)} ORDER BY c.at DESC LIMIT 1`);
  const hours = [minute, rolled].flatMap((row) => (row === null ? [] : [Math.floor(Math.abs(row.at) / minutesPerHour)]));
  return hours.length === 0 ? null : Math.min(...hours);
}

function* countsOf(hour: number): Work<Fields> {
  const begin = hour * minutesPerHour;
  const ofRange = (range: Sql) => query(counted`FROM counters c WHERE ${range} AND ${isAudited} GROUP BY c.series, c.of, c.label`);
  const lists = yield* together([
    ofRange(sql`c.at >= ${begin} AND c.at < ${begin + minutesPerHour}`),
    ofRange(sql`c.at = ${atOfHour(begin)}`),
  ]);
  const fields: Fields = new Map();
  for (const { series, of, label, n } of lists.flat()) addTo(fields, fieldOf(series, of, label), n);
  return fields;
}

function addTo(fields: Fields, field: string, n: number): void {
  fields.set(field, (fields.get(field) ?? 0) + n);
}
