import type { ReplayCursor, ReplayFilter, ReplayFound } from "../port.ts";
import { deliveries, events, never, queue, queueState, settledState } from "../schema/tables.ts";
import { ask, find, look, rows, type Work } from "../sql/ops.ts";
import { as, raw, select } from "../sql/sql.ts";

export interface ReplayStep {
  readonly found: ReplayFound["found"];
  /** Null when the walk is over. */
  readonly place: ReplayCursor | null;
}

export const startOfReplay = (since: number): ReplayCursor => ({ since, lane: never, route: "", event: 0 });

interface Walked {
  readonly lane: number;
  readonly route: string;
  readonly event: number;
  readonly state: number;
  readonly account: string;
  readonly cause: string | null;
  /** When it settled, or when it is due. */
  readonly at: number;
}

const q = as(queue, "q");
const d = as(deliveries, "d");
const open = select({ account: q.account, lane: q.lane, route: q.route, event: q.event, state: q.state, cause: q.cause, at: q.next_at });
const settled = select({
  account: d.account,
  lane: d.lane,
  route: d.route,
  event: d.event,
  state: d.state,
  cause: d.cause,
  at: d.settled_at,
});
const event = look(events, ["seq"], ["received_at", "error_code"]);

/** One pass. Each step reads `limit` rows, matching or not, and goes only forward, so that it meets no delivery twice. */
export function* findReplay(filter: ReplayFilter, place: ReplayCursor, now: number, limit: number): Work<ReplayStep> {
  const isOfWaiting = filter.states.includes("waiting");
  const walked = isOfWaiting ? yield* walkQueue(place, limit) : yield* walkSettled(filter, place, limit);
  const stored = codesOf(filter, isOfWaiting);
  const found = walked.filter(
    ({ state, at, route, cause, account }) =>
      stored.includes(state) &&
      // What is due goes out without a replay. A settlement in the future was written under a wrong clock.
      (isOfWaiting ? at > now : at <= place.since || at > now) &&
      (filter.accounts === undefined || filter.accounts.includes(account)) &&
      (filter.route === undefined || route === filter.route) &&
      (filter.cause === undefined || cause === filter.cause),
  );
  const end = walked.at(-1);
  return {
    found: (yield* ofEvents(found, filter)).map(({ event, route }) => ({ event, route })),
    place: end === undefined || walked.length < limit ? null : { since: place.since, lane: end.lane, route: end.route, event: end.event },
  };
}

function codesOf({ states }: ReplayFilter, isOfWaiting: boolean): readonly number[] {
  if (isOfWaiting) return [queueState.waiting];
  return states.flatMap((state) => (state === "dead" || state === "delivered" ? settledState[state] : []));
}

/** Along the key, because the time of a waiting delivery changes. Backwards: of unordered ones the oldest event comes first. */
function walkQueue({ lane, route, event }: ReplayCursor, limit: number): Work<readonly Walked[]> {
  return rows(
    open`FROM queue q WHERE (q.lane, q.route, q.event) < (${lane}, ${route}, ${event})
      ORDER BY q.lane DESC, q.route DESC, q.event DESC LIMIT ${limit}`,
  );
}

/** Dead deliveries have an index by route. All others are read in the order of acceptance. */
function walkSettled({ states }: ReplayFilter, { route, event }: ReplayCursor, limit: number): Work<readonly Walked[]> {
  if (states.every((state) => state === "dead"))
    return rows(
      settled`FROM deliveries d ${raw("INDEXED BY deliveries_dead", "")}
        WHERE d.state = ${raw(String(settledState.dead))} AND (d.route, d.event) > (${route}, ${event})
        ORDER BY d.route, d.event LIMIT ${limit}`,
    );
  return rows(settled`FROM deliveries d WHERE (d.event, d.route) > (${event}, ${route}) ORDER BY d.event, d.route LIMIT ${limit}`);
}

/** Those whose events match. */
function* ofEvents(found: readonly Walked[], { errorCode, from, to }: ReplayFilter): Work<readonly Walked[]> {
  if (errorCode === undefined && from === undefined && to === undefined) return found;
  const stored = yield* ask(
    find(
      event,
      found.map(({ event }) => [event]),
    ),
  );
  return found.filter((_, place) => {
    const row = stored[place];
    return (
      row !== undefined &&
      (errorCode === undefined || row.error_code === errorCode) &&
      (from === undefined || row.received_at >= from) &&
      (to === undefined || row.received_at < to)
    );
  });
}
