import type { Connection } from "./connection.ts";

/** Why not all that was due was asked. */
export interface ReconcileStop {
  /** `unauthenticated`, `quota`, `blocked`, `unreachable`, `refused`, `unreadable` or `not-found`. */
  reason: string;
  until: string | null;
  /** The last answer, where the reason is one of the last three. */
  detail?: string;
}

interface AccountStanding {
  account: string;
  /** Due, but postponed so that the month's quota lasts. */
  leftForBudget: number;
  /** Known by wamid alone: nobody can ask about them. */
  unaskable: number;
  /** The service knows no such message. */
  missing: number;
  stopped: ReconcileStop | null;
  /** When the month's quota would be used up if all were asked that is due; null: it lasts. */
  lastsUntil: string | null;
}

export interface AccountReconciled extends AccountStanding {
  asked: number;
  changed: number;
  unchanged: number;
  failed: number;
}

export interface AccountPlan extends AccountStanding {
  due: number;
  /** Calls that a pass would make at most. */
  wouldAsk: number;
}

export interface ReconcileFilter {
  /** This one only; not given: all that can be asked. */
  account?: string | undefined;
}

export async function planReconcile(connection: Connection, filter: ReconcileFilter): Promise<AccountPlan[]> {
  const { accounts } = await connection.json<{ accounts: AccountPlan[] }>("POST", "/v1/reconcile", { ...filter, dryRun: true });
  return accounts;
}

/** One whole pass over what is due now, however many calls that takes. */
export async function reconcile(connection: Connection, filter: ReconcileFilter): Promise<AccountReconciled[]> {
  const sums = new Map<string, AccountReconciled>();
  let dueBy: string | null = null;
  for (;;) {
    const step: { dueBy: string; more: boolean; accounts: AccountReconciled[] } = await connection.json("POST", "/v1/reconcile", {
      ...filter,
      dueBy,
    });
    for (const each of step.accounts) sums.set(each.account, addUp(sums.get(each.account), each));
    if (!step.more) return [...sums.values()];
    dueBy = step.dueBy;
  }
}

/** What was done adds up; how things stand is as the later one says. */
function addUp(before: AccountReconciled | undefined, step: AccountReconciled): AccountReconciled {
  if (before === undefined) return step;
  const counts = ["asked", "changed", "unchanged", "missing", "failed"] as const;
  return { ...step, ...Object.fromEntries(counts.map((name) => [name, before[name] + step[name]])) };
}
