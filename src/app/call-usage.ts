import type { BudgetFacts, Calls } from "../reconcile/polls.ts";
import type { CallOutcome, CallPriority } from "../service/endpoints.ts";
import { monthlyCalls, quotaDay, quotaMonth } from "../service/limits/caps.ts";
import { StoreUnavailable } from "../store/port.ts";
import type { Background } from "./store.ts";

export type CallUsage = ReturnType<typeof createCallUsage>;

/** "An API call is each request with a valid key … Requests rejected by the per-minute cap do not count" (document, "Monthly quotas"). */
const counted: readonly CallOutcome["type"][] = ["answered", "unknown"];

const writeEveryMs = 15_000;

interface Count extends Calls {
  readonly account: string;
  readonly day: number;
}

/** The calls of each account by day, as they count toward the month's quota. A crash loses the counts of up to 15 seconds. */
export function createCallUsage({ store, clock: { now }, supervise, settings }: Background) {
  let unwritten = new Map<string, Count>();

  function add({ account, day, polls, others }: Count): void {
    const key = `${day} ${account}`;
    const count = unwritten.get(key);
    unwritten.set(key, { account, day, polls: polls + (count?.polls ?? 0), others: others + (count?.others ?? 0) });
  }

  /** The relay's share of the account's calls a month; null: unlimited. */
  function quota(account: string): number | null {
    const { plan, share } = settings().accounts[account] ?? { plan: "escala", share: 1 };
    const calls = monthlyCalls[plan];
    return calls === null ? null : Math.floor(calls * share);
  }

  async function write(): Promise<void> {
    if (unwritten.size === 0) return;
    const counts = [...unwritten.values()];
    unwritten = new Map();
    try {
      await store.addServiceCalls(counts);
    } catch (error) {
      for (const count of counts) add(count);
      throw error;
    }
  }

  const task = supervise({
    name: "counting calls",
    firstMs: writeEveryMs,
    async run() {
      await write();
      return writeEveryMs;
    },
  });

  return {
    ended(account: string, priority: CallPriority, { type }: CallOutcome): void {
      if (!counted.includes(type)) return;
      const isPoll = priority === "poll";
      add({ account, day: quotaDay(now()), polls: isPoll ? 1 : 0, others: isPoll ? 0 : 1 });
    },
    async facts(account: string): Promise<BudgetFacts> {
      const month = quotaMonth(now());
      const day = quotaDay(now());
      const written = await store.serviceCalls(account, month.from);
      const counts = [...written, ...[...unwritten.values()].filter((count) => count.account === account && count.day >= month.from)];
      return {
        quota: quota(account),
        month,
        day,
        now: now(),
        before: sumOf(counts.filter((count) => count.day < day)),
        today: sumOf(counts.filter((count) => count.day === day)),
      };
    },
    /** Stores the counts now. The task reports a failure and tries again. */
    write: (): Promise<void> => write().catch(() => task.wake()),
    async close(): Promise<void> {
      await task.close();
      await write().catch((error: unknown) => {
        if (!(error instanceof StoreUnavailable)) throw error;
      });
    },
  };
}

function sumOf(counts: readonly Calls[]): Calls {
  return { polls: counts.reduce((sum, { polls }) => sum + polls, 0), others: counts.reduce((sum, { others }) => sum + others, 0) };
}
