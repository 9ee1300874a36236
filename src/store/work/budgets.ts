import {
  type BudgetAnswer,
  type BudgetNews,
  type BudgetRequest,
  type Limits,
  limitsFrom,
  type SlotKind,
  type StoredStop,
  type StoredStops,
} from "../../model/budget.ts";
import type { Work } from "../sql/ops.ts";
import { allOf, create, put, readNow, value } from "./state.ts";

/*
 * An account's row holds the stops that its processes found, and locks the rows of their parts of
 * the caps. Times are of the database's clock.
 */

export interface BudgetRow extends Pick<BudgetRequest, "need" | "want" | "used"> {
  readonly process: string;
  readonly part: Limits;
  readonly leasedUntil: number;
  readonly countsUntil: number;
}

const budgetKey = (place: string): string => `budget/${place}`;
const noStops: StoredStops = { plan: "", stops: {} };

export function* stepBudget(place: string, request: BudgetRequest): Work<BudgetAnswer> {
  const key = budgetKey(place);
  const known = yield* value<StoredStops>(key, "update");
  if (known === null) yield* create(key, noStops);
  const now = yield* readNow();
  const rows = yield* allOf<BudgetRow>(`${key}/`);
  const { limits, row, othersUsed } = decideBudget(rows, request, now);
  yield* put(`${key}/${request.process}`, row, row?.countsUntil);
  const stops = withNews(known ?? noStops, request.news);
  if (stops !== known) yield* put(key, stops);
  return { limits, othersUsed, stops };
}

export const storedStops = (place: string) => value<StoredStops>(budgetKey(place));

export function withNews(known: StoredStops, news: BudgetNews | null): StoredStops {
  if (news === null) return known;
  const stops = Object.entries({ ...(known.plan === news.plan ? known.stops : {}), ...news.stops });
  return {
    plan: news.plan,
    stops: Object.fromEntries(
      stops.filter((entry): entry is [string, StoredStop] => entry[1] !== null),
    ),
  };
}

/** A process gets what others do not hold, at most its fair share. `row` null: it needs nothing. */
export function decideBudget(rows: readonly BudgetRow[], request: BudgetRequest, now: number) {
  const { process, need, want, used } = request;
  const others = rows.filter((row) => row.process !== process && row.countsUntil > now);
  const limits = limitsFrom((kind) => share(kind, others, request, now));
  const part = limitsFrom((kind) => Math.max(limits[kind], request.keep[kind]));
  const leasedUntil = now + request.leaseMs;
  const row: BudgetRow = {
    process,
    need,
    want,
    used,
    part,
    leasedUntil,
    countsUntil: leasedUntil + request.countsMs,
  };
  return {
    limits,
    row: [part, need].flatMap((all) => Object.values(all)).some((n) => n > 0) ? row : null,
    othersUsed: limitsFrom((kind) => sumOf(others, (other) => other.used[kind])),
  };
}

/** A process that begins to call has room at once. */
const keptFree = 0.1;
const turnMs = 60_000;

/**
 * First the needs of all are met evenly, then their wants. A part stays of a process that died
 * until its calls count no longer.
 */
function share(
  kind: SlotKind,
  others: readonly BudgetRow[],
  own: BudgetRequest,
  now: number,
): number {
  const free = own.caps[kind] - sumOf(others, ({ part }) => part[kind]);
  const live = others.filter(({ leasedUntil }) => leasedUntil > now);
  const total = free + sumOf(live, ({ part }) => part[kind]);
  const all = [own, ...live].sort((a, b) => (a.process < b.process ? -1 : 1));
  const turn = Math.floor(now / turnMs);
  const needs = fill(
    total,
    all.map(({ need }) => need[kind]),
    turn,
  );
  const left = Math.floor(total * (1 - keptFree)) - needs.reduce((sum, n) => sum + n, 0);
  const extra = fill(
    left,
    all.map(({ want }, place) => want[kind] - (needs[place] ?? 0)),
    turn,
  );
  const place = all.indexOf(own);
  return Math.max(0, Math.min(free, (needs[place] ?? 0) + (extra[place] ?? 0)));
}

/** Evenly, to none more than it demands. `turn`: who comes first with the rest. */
function fill(total: number, demands: readonly number[], turn: number): number[] {
  const given = demands.map(() => 0);
  let left = Math.min(
    total,
    sumOf(demands, (demand) => Math.max(0, demand)),
  );
  for (let nth = turn; left > 0; nth += 1) {
    const place = nth % demands.length;
    const had = given[place] ?? 0;
    if (had >= (demands[place] ?? 0)) continue;
    given[place] = had + 1;
    left -= 1;
  }
  return given;
}

function sumOf<T>(all: readonly T[], numberOf: (one: T) => number): number {
  return all.reduce((sum, one) => sum + numberOf(one), 0);
}
