import type { DeliveryState } from "../../model/delivery.ts";
import { type Disposition, deliveryStates, dispositions } from "../../model/states.ts";
import type { Stats } from "../reading.ts";
import { attempts, deliveries, events, never, queue, queueState, settledState } from "../schema/tables.ts";
import { first, query, rows, together, type Work } from "../sql/ops.ts";
import { as, raw, select, sql, typed } from "../sql/sql.ts";

/** Events per slice: some tens of milliseconds of the database. */
const sliceSeqs = 20_000;

const e = as(events, "e");
const d = as(deliveries, "d");
const a = as(attempts, "a");
const q = as(queue, "q");
const n = typed<number>(sql`count(*)`);
const byDisposition = select({
  disposition: e.disposition,
  n,
  duplicates: typed<number>(raw("sum(e.duplicates)", "sum(e.duplicates)::bigint")),
});
// The attempt that settled a delivery is stored with it.
const byState = select({
  state: d.state,
  n,
  made: typed<number>(sql`count(d.at)`),
  failed: typed<number>(sql`count(CASE WHEN d.at IS NOT NULL AND (d.error IS NOT NULL OR d.status NOT BETWEEN 200 AND 299) THEN 1 END)`),
});
const earlier = select({
  made: n,
  failed: typed<number>(sql`count(CASE WHEN ${a.error} IS NOT NULL OR ${a.status} NOT BETWEEN 200 AND 299 THEN 1 END)`),
});
const queued = select({ state: q.state, n });
const ends = select({ oldest: typed<number | null>(sql`min(e.seq)`), newest: typed<number | null>(sql`max(e.seq)`) });

const words: Readonly<Record<number, DeliveryState>> = {
  [queueState.waiting]: "waiting",
  [queueState.exchange]: "waiting",
  [queueState.held]: "held",
};
const settledWords: Readonly<Record<number, DeliveryState>> = { [settledState.delivered]: "delivered", [settledState.dead]: "dead" };

/** Counts every row, one slice of events with their deliveries at a time. Events that arrive meanwhile are not counted. */
export function* stats(): Work<Stats> {
  const ofEvents = Object.fromEntries(dispositions.map((word) => [word, 0])) as Record<Disposition, number>;
  const ofDeliveries = Object.fromEntries(deliveryStates.map((word) => [word, 0])) as Record<DeliveryState, number>;
  const sum = { duplicates: 0, made: 0, failed: 0 };
  const { oldest, newest } = (yield* first(ends`FROM events e`)) ?? { oldest: null, newest: null };
  for (let from = oldest ?? never, last = newest ?? 0; from <= last; from += sliceSeqs) {
    const to = Math.min(last, from + sliceSeqs - 1);
    const [stored, settled, tries] = yield* together([
      query(byDisposition`FROM events e WHERE e.seq BETWEEN ${from} AND ${to} GROUP BY e.disposition`),
      query(byState`FROM deliveries d WHERE d.event BETWEEN ${from} AND ${to} GROUP BY d.state`),
      query(earlier`FROM attempts a WHERE a.event BETWEEN ${from} AND ${to}`),
    ]);
    for (const row of stored) {
      const word = dispositions[row.disposition];
      if (word !== undefined) ofEvents[word] += row.n;
      sum.duplicates += row.duplicates;
    }
    for (const row of settled) {
      const word = settledWords[row.state];
      if (word !== undefined) ofDeliveries[word] += row.n;
    }
    for (const { made, failed } of [...settled, ...tries]) {
      sum.made += made;
      sum.failed += failed;
    }
  }
  for (const row of yield* rows(queued`FROM queue q GROUP BY q.state`)) {
    const word = words[row.state];
    if (word !== undefined) ofDeliveries[word] += row.n;
  }
  return {
    dispositions: ofEvents,
    duplicates: sum.duplicates,
    deliveries: ofDeliveries,
    attempts: { made: sum.made, failed: sum.failed },
  };
}
