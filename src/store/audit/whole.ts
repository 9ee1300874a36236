import { deliveries, events, queue, queueState } from "../schema/tables.ts";
import { find, first, look, rows, together, type Work } from "../sql/ops.ts";
import { as, raw, select, sql, typed } from "../sql/sql.ts";
import { alsoSettled, isInLane, otherLane } from "./faults.ts";
import type { createPlans } from "./plans.ts";
import { isParkedRow } from "./slices.ts";
import type { Tally } from "./tally.ts";

/* Rules about rows of several events. */

/** Rows of the queue per slice. */
const sliceRows = 1_000;

const q = as(queue, "q");
const open = select({ lane: q.lane, route: q.route, event: q.event, state: q.state });
type Open = NonNullable<ReturnType<typeof open>["row"]>;
const ofEvent = look(events, ["seq"], ["seq", "subject", "plan"]);
const settled = look(deliveries, ["event", "route"], ["event"]);

/** Walks the queue along its key, for rows that no event asked for, and for the order of its lanes. */
export function* auditQueue(tally: Tally<string>, factsOf: ReturnType<typeof createPlans>): Work<void> {
  const order = createOrderAudit(tally);
  let place: Pick<Open, "lane" | "route" | "event"> = { lane: Number.MIN_SAFE_INTEGER, route: "", event: 0 };
  for (;;) {
    const found = yield* rows(
      open`FROM queue q WHERE (q.lane, q.route, q.event) > (${place.lane}, ${place.route}, ${place.event})
        ORDER BY q.lane, q.route, q.event LIMIT ${sliceRows}`,
    );
    const [stored, twins] = yield* together([
      find(
        ofEvent,
        found.map(({ event }) => [event]),
      ),
      find(
        settled,
        found.map(({ event, route }) => [event, route]),
      ),
    ]);
    const facts = yield* factsOf(stored.filter((row) => row !== undefined));
    for (const [index, row] of found.entries()) {
      const { event, route, lane } = row;
      const of = stored[index];
      if (of === undefined) tally.offence("delivery without event", event, route, "there is no such event");
      else {
        const { deliver = [], park = [] } = facts(of.plan) ?? {};
        if (!deliver.includes(route) && !park.includes(route)) unplanned(tally, row);
        if (!isInLane(lane, of)) tally.offence("delivery contradicts itself", event, route, otherLane);
      }
      if (twins[index] !== undefined) tally.offence("delivery contradicts itself", event, route, alsoSettled);
      if (lane > 0) order.next(row);
    }
    const last = found.at(-1);
    if (last === undefined || found.length < sliceRows) break;
    place = last;
  }
  order.end();
}

function unplanned(tally: Tally<string>, row: Open): void {
  const { event, route } = row;
  if (isParkedRow(row)) tally.offence("parking broken", event, null, "is parked until a time, and no route waits for it");
  else tally.offence("delivery not planned", event, route, "is there, and the route's verdict was not to deliver");
}

/**
 * At most one delivery of a lane is waiting (promise 3). If none is, those that are held are behind one that is parked,
 * which is the first.
 */
function createOrderAudit(tally: Tally<string>) {
  let lane: (Open & { waiting: number; open: number; isFirstParked: boolean }) | null = null;

  function end(): void {
    if (lane === null || lane.open === 0 || lane.waiting === 1 || (lane.waiting === 0 && lane.isFirstParked)) return;
    const what =
      lane.waiting === 0
        ? `is held with ${lane.open - 1} more of its message, behind none that goes out`
        : `goes out with ${lane.waiting - 1} more of its message`;
    tally.offence("order broken", lane.event, lane.route, what);
  }

  return {
    /** Rows in the order of the key. */
    next(row: Open): void {
      if (lane?.lane !== row.lane || lane.route !== row.route) {
        end();
        lane = { ...row, waiting: 0, open: 0, isFirstParked: isParkedRow(row) };
      }
      if (row.state === queueState.waiting) lane.waiting += 1;
      if (!isParkedRow(row)) lane.open += 1;
    },
    end,
  };
}

const index = sql<{ readonly text: string }>`${raw(
  "SELECT sql AS text FROM sqlite_schema WHERE type = 'index' AND name = 'events_id'",
  "SELECT indexdef AS text FROM pg_indexes WHERE schemaname = current_schema() AND indexname = 'events_id'",
)}`;
const twice = select({ event: typed<number>(sql`max(e.seq)`), times: typed<number>(sql`count(*)`) });

/** The unique index prevents repeated ids. Without it, the rows are checked. */
export function* auditIds(tally: Tally<string>): Work<void> {
  const found = yield* first(index);
  if (found !== null && /^CREATE UNIQUE INDEX/i.test(found.text)) return;
  tally.offence("id repeated", null, null, "the unique index events_id is gone: nothing keeps ids apart");
  const repeated = yield* rows(twice`FROM events e WHERE e.id IS NOT NULL GROUP BY e.account, e.id HAVING count(*) > 1 LIMIT 1000`);
  for (const { event, times } of repeated) tally.offence("id repeated", event, null, `its id stands ${times} times`, times - 1);
}
