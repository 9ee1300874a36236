import { hash } from "node:crypto";
import { kept } from "../../model/maps.ts";
import {
  type DeliveryPlan,
  type KeptVerdict,
  keptVerdicts,
  type RouteVerdict,
} from "../../model/states.ts";
import type { DueDelivery, Rules } from "../port.ts";
import { never, plans, queue, queueState, type RowOf } from "../schema/tables.ts";
import { ask, compareTexts, find, look, together, type Work } from "../sql/ops.ts";
import { as, indexedBy, raw, routesOf, select, sql } from "../sql/sql.ts";

export interface NumberedPlan {
  readonly id: number;
  readonly verdicts: string;
}

export interface PlannedBatch<Out> {
  readonly outcomes: readonly Out[];
  readonly plans: readonly NumberedPlan[];
}

/** A reload makes other plans, so the memory of stored ones has a bound. */
const mostKnown = 10_000;

const knownPlan = look(plans, ["id"], ["verdicts"]);

export function* verdictsOf(
  numbers: readonly (number | null)[],
): Work<ReadonlyMap<number, readonly KeptVerdict[]>> {
  const ids = [...new Set(numbers)].filter((id) => id !== null);
  const found = yield* ask(find(knownPlan, ids, (id) => [id]));
  return new Map(
    found.flatMap((row, place) =>
      row === undefined ? [] : [[ids[place] as number, JSON.parse(row.verdicts)]],
    ),
  );
}

function distinctPlans(all: readonly NumberedPlan[]): NumberedPlan[] {
  return [...new Map(all.map((plan) => [plan.id, plan])).values()].sort((a, b) => a.id - b.id);
}

function unstoredPlans(
  given: readonly NumberedPlan[],
  known: readonly (Pick<NumberedPlan, "verdicts"> | undefined)[],
): RowOf<typeof plans>[] {
  for (const [place, stored] of known.entries()) {
    if (stored !== undefined && stored.verdicts !== given[place]?.verdicts)
      throw new Error(`two plans have the number ${given[place]?.id}`);
  }
  return given
    .filter((_, place) => known[place] === undefined)
    .map(({ id, verdicts }) => ({ id, verdicts }));
}

export type PlanNumbers = ReturnType<typeof createPlanNumbers>;

export function createPlanNumbers() {
  // The planner returns the same object for the same verdicts.
  const byIdentity = new WeakMap<DeliveryPlan["verdicts"], NumberedPlan>();
  const stored = new Set<number>();
  return {
    numberOf({ verdicts }: Pick<DeliveryPlan, "verdicts">): NumberedPlan {
      return kept(byIdentity, verdicts, () => {
        const text = JSON.stringify(keptVerdicts({ verdicts }));
        return { id: Number.parseInt(hash("sha256", text).slice(0, 12), 16), verdicts: text };
      });
    },
    isStored: (id: number): boolean => stored.has(id),
    noteStored(plans: readonly NumberedPlan[]): void {
      if (stored.size > mostKnown) stored.clear();
      for (const { id } of plans) stored.add(id);
    },
  };
}

export type Queued = RowOf<typeof queue>;

/** Whoever holds another behind it keeps it from settling meanwhile. */
export const openInLane = look(queue, ["lane", "route"], ["event", "state"], {
  order: "event",
  lock: "share",
});

/** In ms; after it, the exchange ends as a dead letter. */
export const exchangeMs = 60_000;

export interface PlannedEvent {
  readonly seq: number;
  readonly account: string;
  readonly subject: number | null;
  readonly receivedAt: number;
  readonly verdicts: readonly RouteVerdict[];
  readonly isHydrating: boolean;
  readonly proxyRoute: string | null;
}

export function laneOf(
  rules: Pick<Rules, "timing">,
  route: string,
  { seq, subject }: Pick<PlannedEvent, "seq" | "subject">,
): number {
  return subject !== null && rules.timing(route).ordered ? subject : -seq;
}

export const laneKey = (lane: number, route: string): string => `${lane}\0${route}`;

/** Two transactions lock rows of the queue in this order. */
export function sortedLanes<Lane extends readonly [lane: number, route: string, event?: number]>(
  lanes: readonly Lane[],
): Lane[] {
  return lanes.toSorted(
    ([a, one, first = 0], [b, other, second = 0]) =>
      a - b || compareTexts(one, other) || first - second,
  );
}

export function occupied(
  lanes: readonly (readonly [lane: number, route: string])[],
  found: readonly unknown[],
): Set<string> {
  return new Set(
    lanes.flatMap(([lane, route], place) =>
      found[place] === undefined ? [] : [laneKey(lane, route)],
    ),
  );
}

function lanesToLookAt(
  rules: Pick<Rules, "timing">,
  planned: readonly Pick<PlannedEvent, "seq" | "subject" | "verdicts" | "proxyRoute">[],
): (readonly [lane: number, route: string])[] {
  const lanes = new Map<string, readonly [number, string]>();
  for (const event of planned) {
    if (event.subject === null) continue;
    for (const { route, verdict } of event.verdicts) {
      if (verdict !== "deliver" || route === event.proxyRoute) continue;
      const lane = laneOf(rules, route, event);
      if (lane > 0) lanes.set(laneKey(lane, route), [lane, route]);
    }
  }
  return sortedLanes([...lanes.values()]);
}

/** The lanes in which another delivery waits, and the plans, of which some are not stored yet. */
export function* lookAround(
  rules: Rules,
  planned: Parameters<typeof lanesToLookAt>[1],
  plans: readonly NumberedPlan[],
) {
  const lanes = lanesToLookAt(rules, planned);
  const used = distinctPlans(plans);
  const [inLanes, stored] = yield* together([
    find(openInLane, lanes),
    find(knownPlan, used, ({ id }) => [id]),
  ]);
  return { open: occupied(lanes, inLanes), used, unstored: unstoredPlans(used, stored) };
}

/**
 * `open`: the lanes in which another delivery waits, to which those of these rows are added. A
 * delivery behind another of its message is held (promise 3).
 */
export function queueRows(
  rules: Rules,
  event: PlannedEvent,
  open: Set<string>,
): { readonly rows: Queued[]; readonly due: DueDelivery[] } {
  const rows: Queued[] = [];
  const due: DueDelivery[] = [];
  const { seq, account, receivedAt } = event;
  const row = (route: string, lane: number, state: number, at: number): Queued => ({
    lane,
    route,
    event: seq,
    account,
    state,
    next_at: at,
    attempts: 0,
    spent: 0,
    replays: 0,
    cause: null,
  });
  for (const { route, verdict } of event.verdicts) {
    if (verdict === "skip") continue;
    if (route === event.proxyRoute) {
      rows.push(row(route, -seq, queueState.exchange, receivedAt + exchangeMs));
      continue;
    }
    if (verdict === "park") {
      // Registration finds it by its subject, also when the route has no order.
      const lane = event.subject ?? -seq;
      rows.push(
        row(route, lane, queueState.parked, event.isHydrating ? never : receivedAt + rules.parkFor),
      );
      open.add(laneKey(lane, route));
      continue;
    }
    const lane = laneOf(rules, route, event);
    const key = laneKey(lane, route);
    if (open.has(key)) {
      rows.push(row(route, lane, queueState.held, never));
      continue;
    }
    open.add(key);
    const at = receivedAt + rules.timing(route).firstWait;
    rows.push(row(route, lane, queueState.waiting, at));
    due.push({ route, event: seq, at, lane });
  }
  return { rows, due };
}

const q = as(queue, "q");
const byTime = indexedBy("queue_due");
const place = select({ lane: q.lane, route: q.route, event: q.event, at: q.next_at });

/** The state stands in the text for the sake of partial indexes. */
export const routesIn = (state: number) =>
  routesOf(sql`queue q ${byTime} WHERE q.state = ${raw(String(state))}`);

export const overdue = (state: number, route: string, now: number, limit: number) =>
  place`FROM queue q ${byTime}
    WHERE ${raw(`q.state = ${state}`)} AND q.route = ${route} AND q.next_at <= ${now}
    ORDER BY q.next_at, q.event LIMIT ${limit}`;
