/** Calls of an account's relay, as counted. */
export interface Calls {
  readonly polls: number;
  readonly others: number;
}

export interface BudgetFacts {
  /** The relay's share of the month's calls; null: unlimited. */
  readonly quota: number | null;
  /** The month whose quota it is, in unix ms. */
  readonly month: { readonly from: number; readonly until: number };
  /** Unix ms at which the day began. */
  readonly day: number;
  readonly now: number;
  /** Of the month, without this day. */
  readonly before: Calls;
  readonly today: Calls;
}

export interface Budget {
  /** Calls of the month that are left for all purposes; null: unlimited. */
  readonly left: number | null;
  /** How many asks may be made now. */
  readonly mayAsk: number;
  /** Of what is left of the month, what sends do not need. */
  readonly spare: number;
}

export const dayMs = 86_400_000;
/** Of what is left, the part that is kept for sends although none were made yet. */
const keptForSends = 0.1;
/** The part of a day's asks that may be made as the day begins; the others follow evenly. */
const atOnce = 0.25;

/**
 * What reconciliation may ask now, so that the quota lasts until its renewal: of what was left when the day began, first
 * what sends will need (as many a day as until now), then an even part for each day. A day that brings more leaves the
 * others their part.
 */
export function budgetOf({ quota, month, day, now, before, today }: BudgetFacts): Budget {
  if (quota === null) return { left: null, mayAsk: Number.MAX_SAFE_INTEGER, spare: Number.MAX_SAFE_INTEGER };
  const leftAtDawn = quota - before.polls - before.others;
  const left = Math.max(0, leftAtDawn - today.polls - today.others);
  const daysLeft = Math.max(1, (month.until - day) / dayMs);
  const daysGone = (day - month.from) / dayMs;
  const sendsADay = Math.max(daysGone < 1 ? 0 : before.others / daysGone, today.others);
  const forSends = Math.max(sendsADay * daysLeft, leftAtDawn * keptForSends);
  const forAsks = Math.max(0, leftAtDawn - forSends);
  const part = forAsks / daysLeft;
  const open = atOnce + (1 - atOnce) * Math.min(1, Math.max(0, now - day) / dayMs);
  const upTo = (most: number) => Math.max(0, Math.min(Math.floor(most) - today.polls, left));
  return { left, mayAsk: upTo(part * open), spare: upTo(forAsks) };
}

/** Shortest time that a rate is taken from: the first minutes of a day tell little. */
const leastElapsedMs = 3_600_000;

/**
 * When the quota would be used up if every ask that is due were made, unix ms; null: it lasts. `postponed`: asks that the
 * budget did not allow.
 */
export function lastsUntil({ month, day, now, today }: BudgetFacts, { left }: Pick<Budget, "left">, postponed: number): number | null {
  if (left === null) return null;
  const perMs = (today.polls + today.others + postponed) / Math.max(leastElapsedMs, now - day);
  const at = perMs === 0 ? Number.POSITIVE_INFINITY : now + left / perMs;
  return at < month.until ? Math.round(at) : null;
}
