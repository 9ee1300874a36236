import { auditedSeries, hourMs, minuteMs } from "../model/history.ts";
import type { Tally } from "./audit/tally.ts";

export type AuditedSeries = (typeof auditedSeries)[number];

/** Fields of one minute or hour of a series of the history, each `<source or route>:<label>`. */
export interface HistoryCounts {
  /** Unix ms. */
  readonly at: number;
  /** Seconds: 60, or 3600 once it is rolled up. */
  readonly step: 60 | 3600;
  readonly fields: ReadonlyMap<string, number>;
  /** How often it was written, where the engine counts that: two changes can cancel out. A change is noticed by it alone. */
  readonly writes?: number;
}

/** Counts stored rows as the history counts them: by series, minute and field. */
export function createHistoryTally() {
  const sums = new Map<AuditedSeries, Map<number, Map<string, number>>>(auditedSeries.map((series) => [series, new Map()]));
  return {
    add(series: AuditedSeries, at: number, field: string, n = 1): void {
      const minutes = sums.get(series) as Map<number, Map<string, number>>;
      const minute = Math.floor(at / minuteMs) * minuteMs;
      let fields = minutes.get(minute);
      if (fields === undefined) {
        fields = new Map();
        minutes.set(minute, fields);
      }
      fields.set(field, (fields.get(field) ?? 0) + n);
    },
    of: (series: AuditedSeries): readonly HistoryCounts[] =>
      [...(sums.get(series) ?? [])].map(([at, fields]) => ({ at, step: 60 as const, fields })),
  };
}

interface Compared {
  readonly series: AuditedSeries;
  /** The stored rows. */
  readonly rows: readonly HistoryCounts[];
  /** The history when the audit began to read rows, and when it had read them. */
  readonly before: readonly HistoryCounts[];
  readonly after: readonly HistoryCounts[];
  /** Unix ms: only minutes and hours between these are compared, from (included) and to (not included). */
  readonly from: number;
  readonly to: number;
  /** Compares only fields of this source. */
  readonly source?: string | undefined;
}

/** Compares the history with the rows, except minutes that changed meanwhile. Hours that are rolled up are compared whole. */
export function compareHistory<Key extends string | number>(tally: Tally<Key>, compared: Compared): void {
  const { series, rows, before, after, from, to, source } = compared;
  const rolled = new Set([...before, ...after].filter(({ step }) => step === 3_600).map(({ at }) => at));
  const cellOf = (at: number): number => (rolled.has(hourOf(at)) ? hourOf(at) : at);
  const [stored, earlier, counted] = [rows, before, after].map((all) => sumBy(all, cellOf)) as [Cells, Cells, Cells];
  for (const at of new Set([...stored.keys(), ...counted.keys()])) {
    const until = at + (rolled.has(at) ? hourMs : minuteMs);
    if (at < from || until > to || !isSame(earlier.get(at), counted.get(at))) continue;
    const [has, counts] = [stored.get(at)?.fields ?? none, counted.get(at)?.fields ?? none];
    for (const field of new Set([...has.keys(), ...counts.keys()])) {
      if (source !== undefined && !field.startsWith(`${source}:`)) continue;
      const [found, count] = [has.get(field) ?? 0, counts.get(field) ?? 0];
      if (found === count) continue;
      const what = `${series} of ${field} from ${new Date(at).toISOString()}: ${found} are stored, and ${count} are counted`;
      tally.offence("history differs", null, null, what);
    }
  }
}

interface Cell {
  readonly fields: Map<string, number>;
  writes: number;
}
type Cells = ReadonlyMap<number, Cell>;

const none: ReadonlyMap<string, number> = new Map();

const hourOf = (at: number): number => Math.floor(at / hourMs) * hourMs;

function sumBy(all: readonly HistoryCounts[], cellOf: (at: number) => number): Cells {
  const cells = new Map<number, Cell>();
  for (const { at, fields, writes = 0 } of all) {
    const cell = cells.get(cellOf(at)) ?? { fields: new Map<string, number>(), writes: 0 };
    cells.set(cellOf(at), cell);
    cell.writes += writes;
    for (const [field, n] of fields) cell.fields.set(field, (cell.fields.get(field) ?? 0) + n);
  }
  return cells;
}

function isSame(a: Cell | undefined, b: Cell | undefined): boolean {
  const [before, after] = [a?.fields ?? none, b?.fields ?? none];
  const writes = [a?.writes ?? 0, b?.writes ?? 0] as const;
  if (writes[0] + writes[1] > 0) return writes[0] === writes[1];
  return [...new Set([...before.keys(), ...after.keys()])].every((field) => (before.get(field) ?? 0) === (after.get(field) ?? 0));
}
