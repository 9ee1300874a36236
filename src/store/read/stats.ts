import { kept } from "../../model/maps.ts";
import {
  type DeliveryState,
  type Disposition,
  deliveryStates,
  dispositions,
} from "../../model/states.ts";
import type { QuarantineCount, RouteBacklog, Stats } from "../port.ts";
import { codeOf, wordOfSettled } from "../schema/codes.ts";
import {
  attempts,
  counters,
  deliveries,
  events,
  never,
  queue,
  queueState,
  settledState,
  whereQuarantined,
} from "../schema/tables.ts";
import { compareTexts, first, query, rows, together, type Work } from "../sql/ops.ts";
import { as, indexedBy, raw, select, sql, typed } from "../sql/sql.ts";
import { boundsOf } from "./pages.ts";

/** Since the first use; retention does not lower it. */
interface StoredSecretUse {
  readonly source: string;
  readonly secret: string;
  /** Quarantined ones, too. */
  readonly events: number;
  readonly duplicates: number;
  readonly firstAt: number;
  readonly lastAt: number;
}

const c = as(counters, "c");
const q = as(queue, "q");
const d = as(deliveries, "d");
const secret = select({ source: c.of, secret: c.label, series: c.series, n: c.n });

export function* secretUses(): Work<readonly StoredSecretUse[]> {
  const found = yield* rows(
    secret`FROM counters c WHERE c.at = 0 AND c.series IN ('secret', 'secretRepeats', 'secretFirst', 'secretLast')`,
  );
  const uses = new Map<
    string,
    { -readonly [Name in keyof StoredSecretUse]: StoredSecretUse[Name] }
  >();
  for (const { source, secret, series, n } of found) {
    const use = kept(uses, `${source}\0${secret}`, () => ({
      source,
      secret,
      events: 0,
      duplicates: 0,
      firstAt: never,
      lastAt: 0,
    }));
    if (series === "secret") use.events += n;
    else if (series === "secretRepeats") use.duplicates += n;
    else if (series === "secretFirst") use.firstAt = Math.min(use.firstAt, n);
    else use.lastAt = Math.max(use.lastAt, n);
  }
  return [...uses].sort(([a], [b]) => compareTexts(a, b)).map(([, use]) => use);
}

const count = typed<number>(sql`count(*)`);
const open = select({ route: q.route, n: count, oldest: typed<number>(sql`min(q.next_at)`) });
const dead = select({ route: d.route, n: count, first: typed<number>(sql`min(d.event)`) });

const openIn = (state: number) =>
  rows(
    open`FROM queue q ${indexedBy("queue_due")} WHERE q.state = ${raw(String(state))} GROUP BY q.route ORDER BY q.route`,
  );

export function* backlog(): Work<readonly RouteBacklog[]> {
  const routes = new Map<string, RouteBacklog>();
  const of = (route: string): RouteBacklog =>
    kept(routes, route, () => ({
      route,
      waiting: 0,
      held: 0,
      dead: 0,
      oldestDueAt: null,
      deadSince: null,
    }));
  for (const { route, n, oldest } of yield* openIn(queueState.waiting))
    Object.assign(of(route), { waiting: n, oldestDueAt: oldest });
  for (const { route, n } of yield* openIn(queueState.exchange)) of(route).waiting += n;
  for (const { route, n } of yield* openIn(queueState.held)) of(route).held = n;
  const buried = yield* rows(
    dead`FROM deliveries d ${indexedBy("deliveries_dead")} WHERE d.state = ${raw(String(settledState.dead))}
      GROUP BY d.route ORDER BY d.route`,
  );
  for (const { route, n, first: event } of buried) {
    const oldest = yield* first(
      select({
        at: d.settled_at,
      })`FROM deliveries d WHERE d.event = ${event} AND d.route = ${route}`,
    );
    Object.assign(of(route), { dead: n, deadSince: oldest?.at ?? null });
  }
  return [...routes.values()];
}

const e = as(events, "e");

export function* quarantineCount(): Work<QuarantineCount> {
  const counted = yield* rows(
    select({
      disposition: e.disposition,
      events: count,
      oldestAt: typed<number | null>(sql`min(${e.received_at})`),
    })`FROM events e
      ${indexedBy("events_quarantined")} WHERE e.${raw(whereQuarantined)} GROUP BY e.disposition`,
  );
  const of = (word: Disposition) => {
    const { events, oldestAt } =
      counted.find(({ disposition }) => disposition === codeOf.disposition[word]) ?? noEvents;
    return { events, oldestAt };
  };
  return { ...of("quarantined"), unassigned: of("unassigned") };
}

const noEvents = { events: 0, oldestAt: null };

/** Other reads of the thread wait for a slice. */
const sliceSeqs = 5_000;
const a = as(attempts, "a");
const byDisposition = select({
  disposition: e.disposition,
  n: count,
  duplicates: typed<number>(raw("sum(e.duplicates)", "sum(e.duplicates)::bigint")),
});
const byState = select({
  state: d.state,
  n: count,
  made: typed<number>(sql`count(d.at)`),
  failed: typed<number>(
    sql`count(CASE WHEN d.at IS NOT NULL AND (d.error IS NOT NULL OR d.status NOT BETWEEN 200 AND 299) THEN 1 END)`,
  ),
});
const earlier = select({
  made: count,
  failed: typed<number>(
    sql`count(CASE WHEN ${a.error} IS NOT NULL OR ${a.status} NOT BETWEEN 200 AND 299 THEN 1 END)`,
  ),
});
const queued = select({ state: q.state, n: count });

const words: Readonly<Record<number, DeliveryState>> = {
  [queueState.waiting]: "waiting",
  [queueState.exchange]: "waiting",
  [queueState.held]: "held",
};

/** Events that arrive meanwhile are not counted. */
export function* stats(): Work<Stats> {
  const ofEvents = Object.fromEntries(dispositions.map((word) => [word, 0])) as Record<
    Disposition,
    number
  >;
  const ofDeliveries = Object.fromEntries(deliveryStates.map((word) => [word, 0])) as Record<
    DeliveryState,
    number
  >;
  const sum = { duplicates: 0, made: 0, failed: 0 };
  const { oldest, newest: last } = (yield* boundsOf("events")) ?? { oldest: never, newest: 0 };
  for (let from = oldest; from <= last; from += sliceSeqs) {
    const to = Math.min(last, from + sliceSeqs - 1);
    const [stored, settled, tries] = yield* together([
      query(
        byDisposition`FROM events e WHERE e.seq BETWEEN ${from} AND ${to} GROUP BY e.disposition`,
      ),
      query(byState`FROM deliveries d WHERE d.event BETWEEN ${from} AND ${to} GROUP BY d.state`),
      query(earlier`FROM attempts a WHERE a.event BETWEEN ${from} AND ${to}`),
    ]);
    for (const row of stored) {
      const word = dispositions[row.disposition];
      if (word !== undefined) ofEvents[word] += row.n;
      sum.duplicates += row.duplicates;
    }
    for (const row of settled) ofDeliveries[wordOfSettled(row.state)] += row.n;
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
