/**
 * So few that a burst makes no task over 100 ms (bench/views.ts). The oldest leave first.
 * Everything is in the store as well.
 */
const mostRows = 100;

export interface TailRows<Row> {
  readonly shown: readonly Row[];
  /** Arrived while somebody reads; newest first. */
  readonly waiting: readonly Row[];
  /** Number of events that are in neither. */
  readonly skipped: number;
}

export const emptyTail: TailRows<never> = { shown: [], waiting: [], skipped: 0 };

/** Adds rows that arrived, oldest first. With `holds` the shown rows stay as they are. */
export function addRows<Row>(
  rows: TailRows<Row>,
  arrived: readonly Row[],
  skipped: number,
  holds: boolean,
): TailRows<Row> {
  const newest = [...arrived].reverse();
  if (holds) {
    const waiting = [...newest, ...rows.waiting];
    const dropped = Math.max(0, waiting.length - mostRows);
    return {
      ...rows,
      waiting: waiting.slice(0, mostRows),
      skipped: rows.skipped + skipped + dropped,
    };
  }
  const shown = [...newest, ...rows.waiting, ...rows.shown].slice(0, mostRows);
  return { shown, waiting: [], skipped: rows.skipped + skipped };
}

export function showWaiting<Row>(rows: TailRows<Row>): TailRows<Row> {
  return rows.waiting.length === 0 ? rows : addRows(rows, [], 0, false);
}

/**
 * Beside a fresh read of the newest rows, which has what was skipped before: `skipped` counts since
 * the read before.
 */
export function caughtUp<Row>(rows: TailRows<Row>, skipped: number): TailRows<Row> {
  const shown = showWaiting(rows);
  return shown.skipped === skipped ? shown : { ...shown, skipped };
}
