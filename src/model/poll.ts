import type { ReconcileStop } from "./answers.ts";
import type { MaybePromise } from "./maybe-promise.ts";
import type { MessageKey } from "./message.ts";
import type { MessageState } from "./tracking.ts";

export interface PollStore {
  /** Claims in one step, lower ranks first. No other process gets the same messages until the lease expires. */
  claimPolls(claim: PollClaim): Promise<readonly ClaimedPoll[]>;
  /** Ignores claims that have expired. */
  settlePolls(settled: readonly SettledPoll[]): Promise<void>;
  countPolls(query: PollQuery): MaybePromise<PollCounts>;
}

/** What a reconciliation pass did with the messages of an account. */
export interface PassCounts {
  readonly account: string;
  readonly polled: number;
  /** Of these, those that found a status that no webhook had reported. */
  readonly changed: number;
  readonly unchanged: number;
  /** Answered 404 or with another message; not polled again once that is certain. */
  readonly missing: number;
  /** No answer or an unusable one; polled again later. */
  readonly failed: number;
  /** Due, but postponed so that the month's quota lasts. */
  readonly postponed: number;
  /** Known by wamid alone, so they cannot be polled. */
  readonly unpollable: number;
  /** Unix ms at which the quota would be used up if all due messages were polled; null: it lasts. */
  readonly lastsUntil: number | null;
}

/** The last pass over an account, as the store keeps it. Times are unix ms. */
export interface LastPass extends PassCounts {
  readonly endedAt: number;
  readonly stopped: { readonly reason: ReconcileStop["reason"]; readonly until: number | null; readonly detail?: string } | null;
  /** Null: the service answered. */
  readonly unreachableSince: number | null;
  /** When a poll last got no answer. */
  readonly unansweredAt: number | null;
}

/** Which polls to claim. Times are unix ms. */
export interface PollClaim {
  readonly account: string;
  readonly now: number;
  /** Only polls due by this time, which is `now` or earlier. */
  readonly dueBy: number;
  /** Wait between the send and the first poll. */
  readonly after: number;
  readonly limit: number;
  /** The claim expires after this time, so that a crash loses none. */
  readonly leaseMs: number;
}

/** A message that no other process polls until `until`. Times are unix ms. */
export interface ClaimedPoll {
  readonly message: MessageKey;
  readonly until: number;
  readonly wamid: string;
  /** The service's id. */
  readonly messageId: string;
  readonly state: MessageState;
  /** When it was sent, or else registered. */
  readonly since: number;
  readonly dueAt: number;
  readonly rank: number;
  readonly polls: number;
  /** In a row. */
  readonly failures: number;
  /** 404s in a row that count. */
  readonly misses: number;
  readonly polledAt: number | null;
  /** When hydration last read it; null: never. */
  readonly readAt: number | null;
}

/** The result of a claimed poll. */
export type SettledPoll = { readonly message: MessageKey; readonly until: number } & (
  | ({ readonly end: "again"; readonly nextAt: number } & Pick<ClaimedPoll, "rank" | "polls" | "failures" | "misses" | "polledAt">)
  /** Its status is final, or it is too old. */
  | { readonly end: "over" }
  /** The service does not know it. It is not polled until an event or a registration shows that it exists. */
  | { readonly end: "missing"; readonly at: number }
);

export interface PollQuery {
  readonly account: string;
  readonly dueBy: number;
  readonly after: number;
  /** Sent or registered no earlier. */
  readonly from: number;
  /** Statuses that are not polled any more. */
  readonly resting: readonly string[];
  /** Statuses that are polled less often: only messages sent by `sentBy` (unix ms) count. */
  readonly rare: { readonly statuses: readonly string[]; readonly sentBy: number };
}

export interface PollCounts {
  readonly due: number;
  /** Registered without the service's id, and not in a final status. */
  readonly unpollable: number;
  readonly missing: number;
}
