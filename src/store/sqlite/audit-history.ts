import { outcomeOfRow } from "../../model/delivery.ts";
import { auditedSeries, minuteMs, statusLabel } from "../../model/history.ts";
import type { Tally } from "../audit.ts";
import { type AuditedSeries, compareHistory, createHistoryTally, type HistoryCounts } from "../audit-history.ts";
import { nameIn } from "./audit-events.ts";
import type { Db } from "./file.ts";
import { dispositionList, type Names } from "./names.ts";
import { createSwept } from "./purge.ts";

/** An attempt that began just before retention's time may have been deleted with its delivery, if a clock was set. */
const slackMs = 60_000;

type Kept = ReadonlyMap<AuditedSeries, readonly HistoryCounts[]>;

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
  const kept = (["minutes", "hours"] as const).map((table) => ({
    step: table === "minutes" ? (60 as const) : (3600 as const),
    rows: db.prepare<[string], { at: number; subject: number; label: string; n: number; writes: number }>(
      `SELECT h.at, c.subject, c.label, h.n, h.writes FROM history_${table} h CROSS JOIN history_names c
       WHERE c.id = h.counter AND c.series = ? ORDER BY h.at`,
    ),
  }));
  const swept = createSwept(db);
  const stored = createHistoryTally();
  const fieldOf = (subject: number, label: string): string => `${nameIn(names, subject)}:${label}`;

  function read(): Kept {
    return new Map(auditedSeries.map((series) => [series, kept.flatMap(({ step, rows }) => countsIn(rows.all(series), step))]));
  }

  function countsIn(rows: readonly { at: number; subject: number; label: string; n: number; writes: number }[], step: 60 | 3600) {
    return rows.map(
      ({ at, subject, label, n, writes }): HistoryCounts => ({
        at: at * minuteMs,
        step,
        fields: new Map([[fieldOf(subject, label), n]]),
        writes,
      }),
    );
  }

  const before = read();

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
      const after = read();
      const history = swept.before("history") ?? 0;
      for (const series of auditedSeries) {
        const rows = series === "attempts" ? (swept.before("deliveries") ?? -slackMs) + slackMs : (swept.before("events") ?? 0);
        compareHistory(tally, {
          series,
          rows: stored.of(series),
          before: before.get(series) ?? [],
          after: after.get(series) ?? [],
          from: Math.max(history, rows),
          to: Number.POSITIVE_INFINITY,
        });
      }
    },
  };
}
