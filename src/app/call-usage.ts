import type { BudgetFacts, Calls } from "../reconcile/polls.ts";
import type { CallOperation, CallOutcome } from "../service/endpoints.ts";
import { monthlyCalls, quotaDay, quotaMonth } from "../service/limits/caps.ts";
import type { Background } from "./store.ts";

export type CallUsage = ReturnType<typeof createCallUsage>;

/**
 * "An API call is each request with a valid key … Requests rejected by the per-minute cap do not
 * count" (document, "Monthly quotas").
 */
const counted: readonly CallOutcome["type"][] = ["answered", "unknown"];

/** The calls of each account by day, as they count toward the month's quota. */
export function createCallUsage({
  store,
  clock: { now },
  settings,
}: Pick<Background, "store" | "clock" | "settings">) {
  /**
   * The counts so far are stored. None are made while they cannot be: whatever calls needs the
   * store.
   */
  let written: Promise<void> = Promise.resolve();

  /** The relay's share of the account's calls a month; null: unlimited. */
  function quota(account: string): number | null {
    const { plan, share } = settings().accounts[account] ?? { plan: "escala", share: 1 };
    const calls = monthlyCalls[plan];
    return calls === null ? null : Math.floor(calls * share);
  }

  return {
    ended(account: string, operation: CallOperation, { type }: CallOutcome): void {
      if (!counted.includes(type)) return;
      const isPoll = operation === "reads";
      const writing = store.addServiceCalls(account, quotaDay(now()), {
        polls: isPoll ? 1 : 0,
        others: isPoll ? 0 : 1,
      });
      written = Promise.allSettled([written, writing]).then(() => {});
    },
    async facts(account: string): Promise<BudgetFacts> {
      const month = quotaMonth(now());
      const day = quotaDay(now());
      await written;
      const counts = await store.serviceCalls(account, month.from);
      return {
        quota: quota(account),
        month,
        day,
        now: now(),
        before: sumOf(counts.filter((count) => count.day < day)),
        today: sumOf(counts.filter((count) => count.day === day)),
      };
    },
    written: () => written,
  };
}

function sumOf(counts: readonly Calls[]): Calls {
  return {
    polls: counts.reduce((sum, { polls }) => sum + polls, 0),
    others: counts.reduce((sum, { others }) => sum + others, 0),
  };
}
