import type { AccountReconciled } from "../model/answers.ts";
import type { AuditProgress, RelayAudit } from "../model/audit.ts";
import { type AnswerOf, call } from "./calls.ts";
import { type Connection, RelayClientError } from "./connection.ts";
import type { AuditOptions, AuditRange, FilterOf, ReconcileFilter, ReplayFilter, StepOptions } from "./requests.ts";

/** Each request continues where the one before ended, until nothing is left or `signal` is aborted. */
export async function replay(
  connection: Connection,
  filter: ReplayFilter,
  { onProgress, signal }: StepOptions,
): Promise<{ replayed: number; complete: boolean }> {
  let replayed = 0;
  let cursor: string | null = null;
  while (signal?.aborted !== true) {
    const step = (await call(connection, "replay", { ...filter, cursor })) as Extract<AnswerOf<"replay">, { replayed: number }>;
    replayed += step.replayed;
    onProgress?.(replayed);
    if (step.next === null) return { replayed, complete: true };
    // A stopping relay answers at once and does nothing.
    if (step.next === cursor)
      throw new RelayClientError("the relay is stopping", { status: 200, code: "shutting_down", details: { replayed } });
    cursor = step.next;
  }
  return { replayed, complete: false };
}

/** Each answer of 202 means that the audit goes on. */
export async function audit(connection: Connection, range: AuditRange, { onProgress, signal }: AuditOptions): Promise<RelayAudit> {
  for (;;) {
    const answer: RelayAudit | AuditProgress = await call(connection, "audit", range);
    if ("balanced" in answer) return answer;
    onProgress?.(answer);
    signal?.throwIfAborted();
  }
}

export async function reconcile(connection: Connection, filter: ReconcileFilter): Promise<AccountReconciled[]> {
  const sums = new Map<string, AccountReconciled>();
  let dueBy: string | null = null;
  for (;;) {
    const step = (await call(connection, "reconcile", { ...filter, dueBy })) as Extract<AnswerOf<"reconcile">, { more: boolean }>;
    for (const each of step.accounts) sums.set(each.account, addUp(sums.get(each.account), each));
    if (!step.more) return [...sums.values()];
    dueBy = step.dueBy;
  }
}

/** Adds up the counts; the other fields are those of the later step. */
function addUp(before: AccountReconciled | undefined, step: AccountReconciled): AccountReconciled {
  if (before === undefined) return step;
  const counts = ["polled", "changed", "unchanged", "missing", "failed"] as const;
  return { ...step, ...Object.fromEntries(counts.map((name) => [name, before[name] + step[name]])) };
}

const largestPage = 500;

/** Reads page after page, as the items are consumed, up to `limit` items. */
export async function* readPages<Name extends "listEvents" | "listDeliveries" | "listMessages" | "listRuns">(
  connection: Connection,
  name: Name,
  filter: FilterOf<Name>,
  limit = Number.POSITIVE_INFINITY,
): AsyncGenerator<AnswerOf<Name>["data"][number], void> {
  let left = limit;
  let before: string | number | undefined;
  while (left > 0) {
    const { data, next } = await call(connection, name, { ...filter, before, limit: Math.min(largestPage, left) });
    yield* data.slice(0, left);
    left -= data.length;
    if (next === null) return;
    before = next;
  }
}
