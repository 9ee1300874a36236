import type { AccountRecord, Usage } from "../world/records.ts";
import type { World } from "../world/world.ts";
import { quotaMonth } from "./month.ts";

export type Counted = Exclude<keyof Usage, "month">;

/** The settings page's counters are up to so late ("Monthly quotas and maximums"). */
const shownEveryMs = 30_000;

export interface UsageCounters {
  /** Of the month of `now`, as it is; changed in place. */
  of(account: AccountRecord, now: number): Usage;
  add(account: AccountRecord, what: Counted, now: number): void;
  /** As it was at the last full half minute. */
  shown(account: AccountRecord, now: number): Usage;
}

/** Counters of monthly quotas, in the accounts' records: a state file keeps them. */
export function createUsageCounters({ accounts }: Pick<World, "accounts">): UsageCounters {
  /** Usage at the beginning of a half minute in which something was counted. */
  const snapshots = new Map<string, { readonly halfMinute: number; readonly usage: Usage }>();
  const halfMinuteOf = (now: number) => Math.floor(now / shownEveryMs);

  function of(account: AccountRecord, now: number): Usage {
    const month = quotaMonth(now);
    if (account.usage.month !== month) {
      account.usage = { month, apiCalls: 0, webhookDeliveries: 0, automationSteps: 0, automationRequests: 0 };
      accounts.put(account);
    }
    return account.usage;
  }

  return {
    of,
    add(account, what, now) {
      const usage = of(account, now);
      const halfMinute = halfMinuteOf(now);
      if (snapshots.get(account.id)?.halfMinute !== halfMinute) snapshots.set(account.id, { halfMinute, usage: { ...usage } });
      usage[what] += 1;
      accounts.put(account);
    },
    shown(account, now) {
      const usage = of(account, now);
      const snapshot = snapshots.get(account.id);
      // Nothing was counted in this half minute: what is now was so at its beginning.
      return { ...(snapshot?.halfMinute === halfMinuteOf(now) ? snapshot.usage : usage) };
    },
  };
}
