import type { DeliveryState } from "../../event/delivery.ts";
import type { Disposition } from "../../event/plan.ts";
import type { Stats } from "../inspecting.ts";
import { dispositionList, stateList } from "./codes.ts";
import type { Db } from "./open.ts";

/** Seqs of one look: some tens of milliseconds. */
const sliceSeqs = 50_000;

/** Counts every row, a slice of events with all that hangs on them at a time: `yield` stands between two short transactions. */
export function* countStats(db: Db): Generator<void, Stats> {
  const bounds = db.prepare<[], { oldest: number | null; newest: number | null }>(
    "SELECT (SELECT min(seq) FROM events) AS oldest, (SELECT max(seq) FROM events) AS newest",
  );
  const range = "BETWEEN ? AND ?";
  const byDisposition = db.prepare<[number, number], { disposition: number; n: number; duplicates: number }>(
    `SELECT disposition, count(*) AS n, sum(duplicates) AS duplicates FROM events WHERE seq ${range} GROUP BY disposition`,
  );
  const byState = db.prepare<[number, number], { state: number; n: number }>(
    `SELECT state, count(*) AS n FROM deliveries WHERE event ${range} GROUP BY state`,
  );
  const attempts = db.prepare<[number, number], { made: number; failed: number }>(
    `SELECT count(*) AS made, count(*) FILTER (WHERE error IS NOT NULL OR status NOT BETWEEN 200 AND 299) AS failed FROM attempts
     WHERE event ${range}`,
  );
  const dispositions = Object.fromEntries(dispositionList.map((word) => [word, 0])) as Record<Disposition, number>;
  const deliveries = Object.fromEntries(stateList.map((word) => [word, 0])) as Record<DeliveryState, number>;
  const sum = { duplicates: 0, made: 0, failed: 0 };

  const { oldest, newest } = bounds.get() ?? { oldest: null, newest: null };
  const last = newest ?? 0;
  for (let from = oldest ?? 1; from <= last; from += sliceSeqs) {
    // What came in since this began is in the last slice's numbers, or counted the next time.
    const to = from + sliceSeqs > last ? last : from + sliceSeqs - 1;
    db.transaction(() => {
      for (const row of byDisposition.all(from, to)) {
        const word = dispositionList[row.disposition];
        if (word !== undefined) dispositions[word] += row.n;
        sum.duplicates += row.duplicates;
      }
      for (const row of byState.all(from, to)) {
        const word = stateList[row.state];
        if (word !== undefined) deliveries[word] += row.n;
      }
      const { made = 0, failed = 0 } = attempts.get(from, to) ?? {};
      sum.made += made;
      sum.failed += failed;
    })();
    yield;
  }
  return { dispositions, duplicates: sum.duplicates, deliveries, attempts: { made: sum.made, failed: sum.failed } };
}
