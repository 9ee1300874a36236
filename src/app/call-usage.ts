import type { Settings } from "../config/schema.ts";
import type { Clock } from "../model/clock.ts";
import type { BudgetFacts, Calls } from "../reconcile/port.ts";
import type { CallOutcome, CallPriority } from "../service/admission.ts";
import { monthlyCalls } from "../service/limits/caps.ts";
import { quotaDay, quotaMonth } from "../service/renewal.ts";
import type { Store } from "../store/port.ts";
import type { DayCalls } from "../store/service-port.ts";

export interface CallUsageParts {
  readonly store: Pick<Store, "serviceCalls" | "addServiceCalls">;
  readonly clock: Clock;
  readonly settings: () => Settings;
  /** What was counted could not be stored; it is tried again. */
  readonly failed: (error: unknown) => void;
}

/** The calls of each account, by day: what counts against the month's quota. */
export interface CallUsage {
  ended(account: string, priority: CallPriority, outcome: CallOutcome): void;
  facts(account: string): Promise<BudgetFacts>;
  /** Puts what was counted on the disk, as is done every 15 seconds; a crash before that forgets it. */
  write(): Promise<void>;
  /** What is counted after it is for another `write`. */
  close(): void;
}

/** "An API call is each request with a valid key … Requests rejected by the per-minute cap do not count" (document, "Monthly quotas"). */
const counted: readonly CallOutcome["type"][] = ["answered", "unknown"];

const writeEveryMs = 15_000;

export function createCallUsage({ store, clock, settings, failed }: CallUsageParts): CallUsage {
  const { now } = clock;
  type Count = { account: string; day: number; polls: number; others: number };
  let unwritten = new Map<string, Count>();

  /** Of the month, by day; several for a day. */
  async function countsOf(account: string): Promise<readonly DayCalls[]> {
    const { from } = quotaMonth(now());
    const written = await store.serviceCalls(account, from);
    return [...written, ...[...unwritten.values()].filter((count) => count.account === account && count.day >= from)];
  }

  let cancel = writeLater();

  /** The relay's share of the account's calls a month; null: unlimited. */
  function quota(account: string): number | null {
    const { plan, share } = settings().accounts[account] ?? { plan: "escala", share: 1 };
    const calls = monthlyCalls[plan];
    return calls === null ? null : Math.floor(calls * share);
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
    async facts(account) {
      const day = quotaDay(now());
      const counts = await countsOf(account);
      return {
        quota: quota(account),
        month: quotaMonth(now()),
        day,
        now: now(),
        before: sumOf(counts.filter((count) => count.day < day)),
        today: sumOf(counts.filter((count) => count.day === day)),
      };
    },
    write,
    close: () => cancel(),
  };

  async function write(): Promise<void> {
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
      failed(error);
    }
  }

  function writeLater(): () => void {
    return clock.after(writeEveryMs, () => {
      void write();
      cancel = writeLater();
    });
  }
}

function sumOf(counts: readonly Calls[]): Calls {
  return { polls: counts.reduce((sum, { polls }) => sum + polls, 0), others: counts.reduce((sum, { others }) => sum + others, 0) };
}
