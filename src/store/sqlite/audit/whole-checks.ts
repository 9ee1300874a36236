import type { Tally } from "../../audit/tally.ts";
import type { Db } from "../open.ts";

/** Index entries of one look: some tens of milliseconds. */
const sliceEntries = 50_000;

/** Rules about rows of several events, by index, a piece at a time: `yield` ends a piece, and with it its transaction. */
export function createWholeChecks(db: Db, tally: Tally<number>) {
  /** Of one message on one route exactly one open delivery is `waiting`, and all others are behind it (promise 3). */
  function* order(): Generator<void> {
    const end = db
      .prepare<[number], number>(
        `SELECT subject FROM deliveries INDEXED BY deliveries_open WHERE state <= 1 AND subject IS NOT NULL AND subject > ?
         ORDER BY subject LIMIT 1 OFFSET ${sliceEntries - 1}`,
      )
      .pluck();
    const broken = db.prepare<[number, number], { route: number; waiting: number; open: number; event: number }>(
      `SELECT route, sum(state = 0) AS waiting, count(*) AS open, min(event) AS event FROM deliveries INDEXED BY deliveries_open
       WHERE state <= 1 AND subject IS NOT NULL AND subject > ? AND subject <= ? GROUP BY subject, route HAVING sum(state = 0) <> 1`,
    );
    for (let from = -1, to: number; from < Number.MAX_SAFE_INTEGER; from = to) {
      to = end.get(from) ?? Number.MAX_SAFE_INTEGER;
      for (const { route, waiting, open, event } of broken.all(from, to)) {
        const what =
          waiting === 0
            ? `is held with ${open - 1} more of its message, behind none that goes out`
            : `goes out with ${waiting - 1} more of its message`;
        tally.offence("order broken", event, route, what);
      }
      yield;
    }
  }

  /** The index itself allows no id twice. Whoever takes it away can add one, so what it says is looked at all the same. */
  function* ids(): Generator<void> {
    const index = db.prepare<[], string>("SELECT sql FROM sqlite_schema WHERE type = 'index' AND name = 'events_by_id'").pluck().get();
    if (index === undefined || !/^CREATE UNIQUE INDEX/i.test(index)) {
      tally.offence("id repeated", null, null, "the unique index events_by_id is gone: nothing keeps ids apart");
      const twice = db.prepare<[], { event: number; times: number }>(
        "SELECT max(seq) AS event, count(*) AS times FROM events WHERE id IS NOT NULL GROUP BY account, id HAVING count(*) > 1 LIMIT 1000",
      );
      for (const { event, times } of twice.all()) tally.offence("id repeated", event, null, `its id stands ${times} times`, times - 1);
    }
    yield;
  }

  return { order, ids };
}
