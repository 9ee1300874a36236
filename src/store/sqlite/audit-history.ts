import { outcomeOfRow } from "../../model/delivery.ts";
import { auditedSeries, minuteMs, statusLabel } from "../../model/history.ts";
import type { Tally } from "../audit.ts";
import { type AuditedSeries, compareHistory, createHistoryTally, type HistoryCounts } from "../audit-history.ts";
import { nameIn } from "./audit-events.ts";
import type { Db } from "./file.ts";
import { dispositionList, type Names } from "./names.ts";
import { createPurged } from "./purge.ts";

/** An attempt that began just before retention's time may have been deleted with its delivery, if a clock was set. */
const slackMs = 60_000;

/** Compares the history with the rows. Create it in the transaction in which the range of the audit is read. */
export function createHistoryAudit(db: Db, names: Names) {
  const inRange = "seq > ? AND seq <= ?";
  const events = db.prepare<[number, number], { source: number; disposition: number; minute: number; n: number }>(
    `SELECT source, disposition, received_at / ${minuteMs} AS minute, count(*) AS n FROM events WHERE ${inRange} GROUP BY 1, 2, 3`,
  );
  const moved = db.prepare<[number, number], { source: number; status: string; run: 0 | 1; minute: number; n: number }>(
    `SELECT source, status, subject % 2 AS run, received_at / ${minuteMs} AS minute, count(*) AS n FROM events
     WHERE ${inRange} AND moved = 1 GROUP BY 1, 2, 3, 4`,
  );
  const attempts = db.prepare<[number, number], { route: number; status: number | null; error: string | null; minute: number; n: number }>(
    `SELECT route, status, error, at / ${minuteMs} AS minute, count(*) AS n FROM attempts WHERE event > ? AND event <= ? GROUP BY 1, 2, 3, 4`,
  );
  const kept = (["minutes", "hours"] as const).map((table) => {
    const rows = `FROM history_${table} h CROSS JOIN history_names c WHERE c.id = h.counter AND c.series = ?`;
    return {
      step: table === "minutes" ? (60 as const) : (3600 as const),
      writes: db.prepare<[string], { at: number; writes: number }>(`SELECT h.at, sum(h.writes) AS writes ${rows} GROUP BY h.at`),
      counts: db.prepare<[string], { at: number; id: number; subject: number; label: string; n: number; writes: number }>(
        `SELECT h.at, c.id, c.subject, c.label, h.n, h.writes ${rows} ORDER BY h.at`,
      ),
    };
  });
  const purged = createPurged(db);
  const stored = createHistoryTally();
  const fieldOf = (subject: number, label: string): string => `${nameIn(names, subject)}:${label}`;

  /** Enough to notice that a minute or hour changes meanwhile. */
  const before = new Map(
    auditedSeries.map((series) => [
      series,
      kept.flatMap(({ step, writes: all }) =>
        all.all(series).map(({ at, writes }): HistoryCounts => ({ at: at * minuteMs, step, fields: new Map(), writes })),
      ),
    ]),
  );

  /** The rows of a minute or hour as one: a thousand routes have millions of rows. */
  function countsOf(series: AuditedSeries): HistoryCounts[] {
    const fieldNames = new Map<number, string>();
    return kept.flatMap(({ step, counts: rows }) => {
      const found: { at: number; step: 60 | 3600; fields: Map<string, number>; writes: number }[] = [];
      for (const { at: minute, id, subject, label, n, writes } of rows.iterate(series)) {
        const at = minute * minuteMs;
        if (found.at(-1)?.at !== at) found.push({ at, step, fields: new Map(), writes: 0 });
        const last = found.at(-1) as (typeof found)[number];
        const field = fieldNames.get(id) ?? fieldOf(subject, label);
        fieldNames.set(id, field);
        last.fields.set(field, n);
        last.writes += writes;
      }
      return found;
    });
  }

  return {
    /** Counts the rows of the events after `from` up to `to`. Call it in the transaction of the slice. */
    count(from: number, to: number): void {
      for (const { source, disposition, minute, n } of events.all(from, to)) {
        stored.add("events", minute * minuteMs, fieldOf(source, dispositionList[disposition] ?? String(disposition)), n);
      }
      for (const { source, status, run, minute, n } of moved.all(from, to)) {
        stored.add("transitions", minute * minuteMs, fieldOf(source, statusLabel(run === 1 ? "run" : "message", status)), n);
      }
      for (const { route, status, error, minute, n } of attempts.all(from, to)) {
        stored.add("attempts", minute * minuteMs, fieldOf(route, outcomeOfRow(status, error)), n);
      }
    },
    /** Call it inside a transaction, after all slices. */
    check(tally: Tally<number>): void {
      const history = purged.before("history") ?? 0;
      for (const series of auditedSeries) {
        const rows = series === "attempts" ? (purged.before("deliveries") ?? -slackMs) + slackMs : (purged.before("events") ?? 0);
        compareHistory(tally, {
          series,
          rows: stored.of(series),
          before: before.get(series) ?? [],
          after: countsOf(series),
          from: Math.max(history, rows),
          to: Number.POSITIVE_INFINITY,
        });
      }
    },
  };
}
