import type { BudgetFacts, Calls } from "../reconcile/budget.ts";
import type { CallOutcome, CallPriority } from "../service-api/admission.ts";
import { quotaDay, quotaMonth } from "../service-api/renewal.ts";
import type { SqliteStore } from "../store/sqlite/sqlite-store.ts";

export interface CallUsageParts {
  readonly store: Pick<SqliteStore, "serviceCalls" | "addServiceCalls">;
  readonly now: () => number;
  /** The relay's share of the account's calls a month; null: unlimited. */
  readonly quota: (account: string) => number | null;
}

/** The calls of each account, by day: what counts against the month's quota. */
export interface CallUsage {
  ended(account: string, priority: CallPriority, outcome: CallOutcome): void;
  facts(account: string): BudgetFacts;
  /** Puts what was counted on the disk; a crash before that forgets it. */
  write(): Promise<void>;
}

/** "An API call is each request with a valid key … Requests rejected by the per-minute cap do not count" (document, "Monthly quotas"). */
const counted: readonly CallOutcome["type"][] = ["answered", "unknown"];

export function createCallUsage({ store, now, quota }: CallUsageParts): CallUsage {
  type Count = { account: string; day: number; polls: number; others: number };
  let unwritten = new Map<string, Count>();

  function sumOf(account: string, isDay: (day: number) => boolean): Calls {
    const rows = [
      ...store.serviceCalls(account, quotaMonth(now()).from),
      ...[...unwritten.values()].filter((count) => count.account === account && count.day >= quotaMonth(now()).from),
    ].filter(({ day }) => isDay(day));
    return { polls: rows.reduce((sum, { polls }) => sum + polls, 0), others: rows.reduce((sum, { others }) => sum + others, 0) };
  }

  return {
    ended(account, priority, { type }) {
      if (!counted.includes(type)) return;
      const day = quotaDay(now());
      const key = `${day} ${account}`;
      const count = unwritten.get(key) ?? { account, day, polls: 0, others: 0 };
      unwritten.set(key, count);
      count[priority === "poll" ? "polls" : "others"] += 1;
    },
    facts(account) {
      const day = quotaDay(now());
      return {
        quota: quota(account),
        month: quotaMonth(now()),
        day,
        now: now(),
        before: sumOf(account, (of) => of < day),
        today: sumOf(account, (of) => of === day),
      };
    },
    async write() {
      if (unwritten.size === 0) return;
      const counts = unwritten;
      unwritten = new Map();
      try {
        await store.addServiceCalls([...counts.values()]);
      } catch (error) {
        for (const [key, count] of counts) {
          const since = unwritten.get(key);
          unwritten.set(
            key,
            since === undefined ? count : { ...count, polls: count.polls + since.polls, others: count.others + since.others },
          );
        }
        throw error;
      }
    },
  };
}
