/** How far retention has come, for all processes: the row `retention`. */
export interface RetentionRow {
  /** Up to this seq the settled deliveries were taken; what was not yet old enough then stands in `kept`. */
  readonly deliveriesTo: number;
  /** Up to this seq the events were taken, likewise. */
  readonly eventsTo: number;
  /** Unix ms at which the last whole walk over registered subjects began. */
  readonly walkedAt: number;
  /** Events received before this moment (unix ms) may be gone; null: none are. */
  readonly sweptEvents: number | null;
  /** Deliveries settled before it. */
  readonly sweptDeliveries: number | null;
}

const nothing: RetentionRow = { deliveriesTo: 0, eventsTo: 0, walkedAt: 0, sweptEvents: null, sweptDeliveries: null };

export const retentionRowName = "retention";

/** `json`: null when retention has never taken anything. */
export const readRetentionRow = (json: string | null): RetentionRow => (json === null ? nothing : (JSON.parse(json) as RetentionRow));

/** Never goes back: of each the later one. */
export function joinRetention(row: RetentionRow, news: Partial<RetentionRow>): RetentionRow {
  const joined = { ...row };
  for (const name of Object.keys(news) as (keyof RetentionRow)[]) {
    const value = news[name];
    if (value !== null && value !== undefined) joined[name] = Math.max(value, row[name] ?? value);
  }
  return joined;
}
