import type { AccountsView } from "./answers.ts";
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

/** The last pass over an account, as the store keeps it. `unansweredAt`: unix ms at which a poll last got no answer. */
export interface LastPass extends NonNullable<AccountsView["data"][number]["lastPass"]> {
  readonly account: string;
  readonly unansweredAt: number | null;
}

export type PassCounts = Omit<LastPass, "endedAt" | "stopped" | "unreachableSince" | "unansweredAt">;

/** Times are unix ms. `after`: the wait between the send and the first poll, in ms. */
export interface PollClaim {
  readonly account: string;
  readonly now: number;
  readonly dueBy: number;
  readonly after: number;
  readonly limit: number;
  /** The claim expires after this time, so that a crash loses none. */
  readonly leaseMs: number;
}

/** A message that no other process polls until `until`. Times are unix ms. `since`: when it was sent, or else registered. */
export interface ClaimedPoll {
  readonly message: MessageKey;
  readonly until: number;
  readonly wamid: string;
  readonly messageId: string;
  readonly state: MessageState;
  readonly since: number;
  readonly dueAt: number;
  readonly rank: number;
  readonly polls: number;
  /** In a row. */
  readonly failures: number;
  /** 404s in a row that count. */
  readonly misses: number;
  readonly polledAt: number | null;
  readonly readAt: number | null;
}

export type SettledPoll = { readonly message: MessageKey; readonly until: number } & (
  | ({ readonly end: "again"; readonly nextAt: number } & Pick<ClaimedPoll, "rank" | "polls" | "failures" | "misses" | "polledAt">)
  /** Its status is final, or it is too old. */
  | { readonly end: "over" }
  /** The service does not know it. It is not polled until an event or a registration shows that it exists. */
  | { readonly end: "missing"; readonly at: number }
);

/** Messages sent or registered at `from` (unix ms) or later. `resting`: statuses that are not polled any more. */
export interface PollQuery {
  readonly account: string;
  readonly dueBy: number;
  readonly after: number;
  readonly from: number;
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
