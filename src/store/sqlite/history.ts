import {
  bucketOf,
  type GaugeSample,
  gaugeNames,
  hourMs,
  minuteMs,
  minutesKeptMs,
  mostCodes,
  otherCode,
  type SeriesName,
} from "../../model/history.ts";
import type { Disposition } from "../../model/plan.ts";
import type { Db } from "./file.ts";
import { dispositionList } from "./names.ts";
import { createPurged } from "./purge.ts";

/** A change of one counter by `n`, gathered over a transaction. */
interface Change {
  /** Unix minutes. */
  readonly minute: number;
  readonly counter: number;
  n: number;
}

/** Above any number of a counter, so that two numbers make one key. */
const most = 2 ** 24;
/** The subject of a series without sources and routes. */
export const noSubject = 0;
const minutesPerHour = hourMs / minuteMs;
/** Acknowledgements are written with a later transaction, and at the latest after this time. */
const acknowledgedEveryMs = 1_000;

export type HistoryWriter = ReturnType<typeof createHistory>;

/**
 * Counts in the transaction that stores what is counted: gathered in memory, and one upsert per distinct counter at the end
 * of the transaction. `subject` is the number of a source's or route's name. Call `write` inside the transaction.
 */
export function createHistory(db: Db) {
  const findCounter = db
    .prepare<[string, number, string], number>("SELECT id FROM history_names WHERE series = ? AND subject = ? AND label = ?")
    .pluck();
  const addCounter = db.prepare<[string, number, string, number]>(
    "INSERT INTO history_names (series, subject, label, last_at) VALUES (?, ?, ?, ?)",
  );
  const codesOfHour = db
    .prepare<[{ from: number; to: number; hour: number }], string>(
      `SELECT label FROM history_names WHERE series = 'failures' AND (id IN (SELECT counter FROM history_minutes WHERE at >= @from AND at < @to)
         OR EXISTS (SELECT 1 FROM history_hours h WHERE h.counter = id AND h.at = @hour))`,
    )
    .pluck();
  const toMinute = db.prepare<[number, number, number]>(
    `INSERT INTO history_minutes (at, counter, n, writes) VALUES (?, ?, ?, 1)
     ON CONFLICT (at, counter) DO UPDATE SET n = n + excluded.n, writes = writes + 1`,
  );
  const toHour = db.prepare<[number, number, number]>(
    `INSERT INTO history_hours (counter, at, n, writes) VALUES (?, ?, ?, 1)
     ON CONFLICT (counter, at) DO UPDATE SET n = n + excluded.n, writes = writes + 1`,
  );
  const sample = db.prepare<[number, number, number]>(
    `INSERT INTO history_minutes (at, counter, n, writes) VALUES (?, ?, ?, 1)
     ON CONFLICT (at, counter) DO UPDATE SET n = excluded.n, writes = writes + 1`,
  );
  const touch = db.prepare<[number, number, number]>("UPDATE history_names SET last_at = ? WHERE id = ? AND last_at < ?");
  const purged = createPurged(db);
  const rolled = createRolled(db);

  const counters = new Map<SeriesName, Map<number, Map<string, number>>>();
  const changes = new Map<number, Change>();
  const codes = new Map<number, Set<string>>();
  /** Acknowledgements by bucket and minute; they outlive a transaction that fails. */
  let acknowledged = new Map<number, Map<number, number>>();
  let isWritten = false;
  /** `counters` is read again each hour, so that `last_at` tells which are in use. */
  let hourOfCounters = 0;
  /** Minutes before which there are hours, and before which (unix ms) nothing is kept. Only this process changes them. */
  let bounds: { readonly rolled: number; readonly purged: number } | null = null;
  let timer: NodeJS.Timeout | null = null;

  function counterOf(series: SeriesName, subject: number, label: string, minute: number): number {
    if (minute >= hourOfCounters + minutesPerHour) {
      counters.clear();
      hourOfCounters = minute - (minute % minutesPerHour);
    }
    let bySubject = counters.get(series);
    if (bySubject === undefined) {
      bySubject = new Map();
      counters.set(series, bySubject);
    }
    let byLabel = bySubject.get(subject);
    if (byLabel === undefined) {
      byLabel = new Map();
      bySubject.set(subject, byLabel);
    }
    let id = byLabel.get(label);
    if (id === undefined) {
      id = findCounter.get(series, subject, label);
      if (id === undefined) id = Number(addCounter.run(series, subject, label, minute).lastInsertRowid);
      else touch.run(minute, id, minute);
      byLabel.set(label, id);
    }
    return id;
  }

  /** At most `mostCodes` in an hour are counted by name. */
  function codeLabel(code: string, minute: number): string {
    const hour = Math.floor(minute / minutesPerHour);
    let known = codes.get(hour);
    if (known === undefined) {
      // Nearly all events come in order.
      if (codes.size > 2) codes.clear();
      const from = hour * minutesPerHour;
      known = new Set(codesOfHour.all({ from, to: from + minutesPerHour, hour: from }));
      codes.set(hour, known);
    }
    if (known.has(code)) return code;
    if (known.size >= mostCodes) return otherCode;
    known.add(code);
    return code;
  }

  /** `at` is unix ms. */
  function count(series: SeriesName, subject: number, label: string, at: number, n = 1): void {
    const minute = Math.floor(at / minuteMs);
    const counter = counterOf(series, subject, series === "failures" ? codeLabel(label, minute) : label, minute);
    const key = minute * most + counter;
    const change = changes.get(key);
    if (change === undefined) changes.set(key, { minute, counter, n });
    else change.n += n;
  }

  /** A sum of zero is written too: an audit that reads between two transactions sees by `writes` what changed. */
  function put({ minute, counter, n }: Change, { rolled: rolledBefore, purged }: NonNullable<typeof bounds>): void {
    if (minute * minuteMs < purged) return;
    if (minute >= rolledBefore) toMinute.run(minute, counter, n);
    else toHour.run(counter, minute - (minute % minutesPerHour), n);
  }

  function write(): void {
    if (changes.size === 0) return;
    bounds ??= { rolled: rolled.before(), purged: purged.before("history") ?? 0 };
    for (const change of changes.values()) put(change, bounds);
    changes.clear();
  }

  function forget(): void {
    changes.clear();
    counters.clear();
    codes.clear();
    bounds = null;
    isWritten = false;
  }

  return {
    count,
    /** The disposition of a stored event changes: its minute loses one and gains one. Both are codes. */
    move(source: number, receivedAt: number, from: number, to: number): void {
      if (from === to) return;
      count("events", source, dispositionList[from] as Disposition, receivedAt, -1);
      count("events", source, dispositionList[to] as Disposition, receivedAt);
    },
    /** Gathers the time from a request to its answer. `flush` is called later, and begins a transaction. */
    acknowledged(tookMs: number, at: number, flush: () => void): void {
      const minute = Math.floor(at / minuteMs);
      const bucket = bucketOf(tookMs);
      let buckets = acknowledged.get(minute);
      if (buckets === undefined) {
        buckets = new Map();
        acknowledged.set(minute, buckets);
      }
      buckets.set(bucket, (buckets.get(bucket) ?? 0) + 1);
      timer ??= setTimeout(() => {
        timer = null;
        flush();
      }, acknowledgedEveryMs).unref();
    },
    hasAcknowledged: (): boolean => acknowledged.size > 0,
    /** A write of the gathered acknowledgements. */
    addAcknowledged(): void {
      for (const [minute, buckets] of acknowledged) {
        for (const [bucket, n] of buckets) count("ack", noSubject, String(bucket), minute * minuteMs, n);
      }
      isWritten = true;
    },
    /** The latest sample of a minute wins. */
    sampleGauges(values: GaugeSample, at: number): void {
      const minute = Math.floor(at / minuteMs);
      for (const name of ["oldest", "deadLetters"] as const) {
        sample.run(minute, counterOf(name, noSubject, "", minute), Math.round(values[name]));
      }
    },
    /** Writes the counts of this transaction. */
    write,
    /** Call it before minutes become hours and counters are deleted. */
    settle(): void {
      write();
      counters.clear();
      bounds = null;
    },
    /** The transaction is committed. */
    committed(): void {
      if (!isWritten) return;
      isWritten = false;
      acknowledged = new Map();
    },
    /** Drops the counts of a transaction that rolled back, and numbers that may not be in the file. */
    forget,
    close(): void {
      if (timer !== null) clearTimeout(timer);
    },
  };
}

/** The minute (unix minutes) before which minutes have become hours. */
export function createRolled(db: Db) {
  const select = db.prepare<[], string>("SELECT value FROM meta WHERE key = 'rolled history'").pluck();
  const upsert = db.readonly
    ? null
    : db.prepare<[string]>(
        "INSERT INTO meta (key, value) VALUES ('rolled history', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
      );
  return {
    before: (): number => Number(select.get() ?? 0),
    note: (minute: number): void => void upsert?.run(String(minute)),
  };
}

/**
 * Turns minutes older than two days into hours, and deletes what is past its retention. Call both inside a transaction,
 * with the number of rows that they may take. They return how many they took.
 */
export function createHistoryUpkeep(db: Db) {
  const oldest = db.prepare<[], number | null>("SELECT min(at) FROM history_minutes").pluck();
  const gauges = gaugeNames.map((name) => `'${name}'`).join(", ");
  const into = (names: string, sum: string) =>
    db.prepare<[{ hour: number; at: number }]>(
      `INSERT INTO history_hours (counter, at, n, writes)
       SELECT m.counter, @hour, m.n, m.writes FROM history_minutes m JOIN history_names c ON c.id = m.counter
       WHERE m.at = @at AND c.series ${names} (${gauges})
       ON CONFLICT (counter, at) DO UPDATE SET n = ${sum}, writes = writes + excluded.writes`,
    );
  const add = into("NOT IN", "n + excluded.n");
  const raise = into("IN", "max(n, excluded.n)");
  const remove = db.prepare<[number]>("DELETE FROM history_minutes WHERE at = ?");
  const next = db.prepare<[number], { id: number; last_at: number }>(
    "SELECT id, last_at FROM history_names WHERE id > ? ORDER BY id LIMIT 1",
  );
  const removeHours = db.prepare<[{ counter: number; before: number; limit: number }]>(
    `DELETE FROM history_hours WHERE counter = @counter
       AND at IN (SELECT at FROM history_hours WHERE counter = @counter AND at < @before ORDER BY at LIMIT @limit)`,
  );
  const inHours = db.prepare<[number], number>("SELECT 1 FROM history_hours WHERE counter = ? LIMIT 1").pluck();
  const removeName = db.prepare<[number]>("DELETE FROM history_names WHERE id = ?");
  const rolled = createRolled(db);
  const purged = createPurged(db);
  let cursor = 0;

  return {
    roll(now: number, limit: number): number {
      const before = Math.floor((now - minutesKeptMs) / minuteMs);
      let taken = 0;
      while (taken < limit) {
        const at = oldest.get() ?? null;
        if (at === null || at >= before) break;
        const hour = at - (at % minutesPerHour);
        add.run({ hour, at });
        raise.run({ hour, at });
        taken += remove.run(at).changes;
        // A clock that was set back must not bring back minutes.
        if (at >= rolled.before()) rolled.note(at + 1);
      }
      return taken;
    },
    /** `keep`: milliseconds. Null: the pass over all counters is over. */
    purge(now: number, keep: number, limit: number): number | null {
      // Whole hours, of which none is in minutes.
      const before = Math.floor((now - Math.max(keep, minutesKeptMs + hourMs)) / hourMs) * minutesPerHour;
      const row = next.get(cursor);
      if (row === undefined) {
        cursor = 0;
        return null;
      }
      const { changes } = removeHours.run({ counter: row.id, before, limit });
      if (changes > 0) purged.note("history", before * minuteMs);
      if (changes >= limit) return changes;
      cursor = row.id;
      if (row.last_at >= before || inHours.get(row.id) !== undefined) return Math.max(1, changes);
      removeName.run(row.id);
      return changes + 1;
    },
  };
}
