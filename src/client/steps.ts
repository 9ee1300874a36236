import type { AccountReconciled } from "../model/answers.ts";
import type { AuditProgress, RelayAudit } from "../model/audit.ts";
import { type AnswerOf, call, type RequestOf } from "./calls.ts";
import { type Connection, RelayClientError } from "./connection.ts";

/** Of all rows of a list: `limit` is the most rows in total. Default: all that match. */
export type FilterOf<Name extends "listEvents" | "listDeliveries" | "listMessages" | "listRuns"> = Omit<RequestOf<Name>, "before">;
export type AuditRange = RequestOf<"audit">;
export type ReplayFilter = Omit<RequestOf<"replay">, "dryRun" | "cursor" | "limit">;
/** `account`: this one only. Default: every account that can be polled. `dueBy`: that of the plan. Default: now. */
export type ReconcileFilter = Pick<RequestOf<"reconcile">, "account" | "dueBy">;

/** Of work that takes several requests. */
export interface StepOptions {
  /** Called after each request with the number done so far. */
  onProgress?: ((done: number) => void) | undefined;
  /** No further request is made once it is aborted; what is done stays done. */
  signal?: AbortSignal | undefined;
}

export interface ReplayStepOptions {
  /** Where to begin: the `cursor` of an earlier step. */
  cursor?: string | null | undefined;
  /** Most deliveries of one request. */
  limit?: number | undefined;
  signal?: AbortSignal | undefined;
}

export interface ReplayProgress {
  readonly replayed: number;
  /** Null: all is done. */
  readonly cursor: string | null;
}

export interface AuditOptions {
  /** Called while the audit goes on. */
  onProgress?: ((progress: AuditProgress) => void) | undefined;
  /** Throws its reason once it is aborted. */
  signal?: AbortSignal | undefined;
}

/**
 * Replays in as many requests as it takes, until nothing is left or `signal` is aborted. Yields after each how many went out so
 * far, and where the next one begins; null: all is done.
 */
export async function* replaySteps(
  connection: Connection,
  filter: ReplayFilter,
  { cursor: from = null, limit, signal }: ReplayStepOptions,
): AsyncGenerator<ReplayProgress, void> {
  let replayed = 0;
  let cursor = from;
  do {
    const step = (await call(connection, "replay", { ...filter, cursor, limit })) as Extract<AnswerOf<"replay">, { replayed: number }>;
    replayed += step.replayed;
    // A stopping relay answers at once and does nothing.
    if (step.next !== null && step.next === cursor)
      throw new RelayClientError("the relay is stopping", { status: 200, code: "shutting_down", details: { replayed } });
    cursor = step.next;
    yield { replayed, cursor };
  } while (cursor !== null && signal?.aborted !== true);
}

export async function replay(
  connection: Connection,
  filter: ReplayFilter,
  { onProgress, signal }: StepOptions,
): Promise<{ replayed: number; complete: boolean }> {
  let last: ReplayProgress = { replayed: 0, cursor: "" };
  if (signal?.aborted === true) return { replayed: 0, complete: false };
  for await (last of replaySteps(connection, filter, { signal })) onProgress?.(last.replayed);
  return { replayed: last.replayed, complete: last.cursor === null };
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

export async function reconcile(
  connection: Connection,
  filter: ReconcileFilter,
  { onProgress, signal }: StepOptions,
): Promise<AccountReconciled[]> {
  const sums = new Map<string, AccountReconciled>();
  let { dueBy = null } = filter;
  for (;;) {
    const step = (await call(connection, "reconcile", { ...filter, dueBy })) as Extract<AnswerOf<"reconcile">, { more: boolean }>;
    for (const each of step.accounts) sums.set(each.account, addUp(sums.get(each.account), each));
    const accounts = [...sums.values()];
    if (!step.more || signal?.aborted === true) return accounts;
    onProgress?.(accounts.reduce((sum, { polled }) => sum + polled, 0));
    ({ dueBy } = step);
  }
}

/** Adds up the counts; the other fields are those of the later step. */
function addUp(before: AccountReconciled | undefined, step: AccountReconciled): AccountReconciled {
  if (before === undefined) return step;
  const counts = ["polled", "changed", "unchanged", "missing", "failed"] as const;
  return { ...step, ...Object.fromEntries(counts.map((name) => [name, before[name] + step[name]])) };
}

const largestPage = 1000;

/** The pages of a list, as they are consumed, up to `limit` rows, from `before` on. */
export async function* pagesOf<
  Next extends string | number,
  Page extends { readonly data: readonly unknown[]; readonly next: Next | null },
>(
  list: (place: { readonly before: Next | undefined; readonly limit: number }) => Promise<Page>,
  limit = Number.POSITIVE_INFINITY,
  before?: Next,
): AsyncGenerator<Page, void> {
  let next = before;
  for (let left = limit; left > 0; ) {
    const page = await list({ before: next, limit: Math.min(largestPage, left) });
    yield page;
    if (page.next === null) return;
    left -= page.data.length;
    next = page.next;
  }
}

/** Reads page after page, as the rows are consumed, up to `limit` rows. */
export async function* readPages<Name extends "listEvents" | "listDeliveries" | "listMessages" | "listRuns">(
  connection: Connection,
  name: Name,
  filter: FilterOf<Name>,
  limit?: number,
): AsyncGenerator<AnswerOf<Name>["data"][number], void> {
  const list = (place: object): Promise<{ data: AnswerOf<Name>["data"]; next: string | number | null }> =>
    call(connection, name, { ...filter, ...place });
  for await (const { data } of pagesOf(list, limit)) yield* data;
}
