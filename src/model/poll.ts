import type { AccountsView } from "./answers/accounts.ts";
import type { MessageState } from "./tracking.ts";

export const holdReasons = ["quota", "unauthenticated", "blocked"] as const;
/** Why the service is not called at all. */
export interface Hold {
  readonly reason: (typeof holdReasons)[number];
  readonly until: number | null;
}

/**
 * All polls of an account fail. `not-found`: with 404; `refused`: with another 4xx; `unreadable`:
 * the answers are not messages. `detail` names the last answer, without personal data.
 */
export interface PollFault {
  readonly reason: "not-found" | "refused" | "unreadable";
  readonly detail: string;
}

/** What came of a poll. `at`: when the request was sent. */
export type PollAnswer =
  | {
      readonly type: "found";
      readonly at: number;
      readonly wamid: string;
      readonly status: string;
      readonly errorCode: string | null;
    }
  /**
   * The service does not know the message. `isCredible`: it found others, so base URL and key are
   * right.
   */
  | { readonly type: "missing"; readonly at: number; readonly isCredible: boolean }
  | { readonly type: "faulty"; readonly fault: PollFault }
  /** `isFinal`: the service refuses this id for good. `error`: the kind of the failure. */
  | { readonly type: "failed"; readonly isFinal: boolean; readonly error: string }
  | ({ readonly type: "held" } & Hold)
  /** The account has no base URL or key. */
  | { readonly type: "no-client" }
  /** The signal was aborted, or the client closed, before the call. */
  | { readonly type: "not-polled" };

/**
 * The last pass over an account, as the store keeps it. `unansweredAt`: when a poll last got no
 * answer.
 */
export interface LastPass extends NonNullable<AccountsView["data"][number]["lastPass"]> {
  readonly account: string;
  readonly unansweredAt: number | null;
}

export type PassCounts = Omit<
  LastPass,
  "endedAt" | "stopped" | "unreachableSince" | "unansweredAt"
>;

/** `after`: the wait between the send and the first poll, in ms. */
export interface PollClaim {
  readonly account: string;
  readonly now: number;
  readonly dueBy: number;
  readonly after: number;
  readonly limit: number;
  /** The claim expires after this time, so that a crash loses none. */
  readonly leaseMs: number;
}

/**
 * A message that no other process polls until `until`. `since`: when it was sent, or else
 * registered.
 */
export interface ClaimedPoll {
  readonly message: number;
  readonly until: number;
  readonly wamid: string;
  readonly messageId: string;
  readonly state: MessageState;
  readonly since: number;
  readonly dueAt: number;
  readonly rank: number;
  readonly polls: number;
  readonly failures: number;
  /** 404s in a row that count. */
  readonly misses: number;
  readonly polledAt: number | null;
  readonly readAt: number | null;
}

export type SettledPoll = { readonly message: number; readonly until: number } & (
  | ({ readonly end: "again"; readonly nextAt: number } & Pick<
      ClaimedPoll,
      "rank" | "polls" | "failures" | "misses" | "polledAt"
    >)
  /** Its status is final, or it is too old. */
  | { readonly end: "over" }
  /**
   * The service does not know it. It is not polled until an event or a registration shows that it
   * exists.
   */
  | { readonly end: "missing"; readonly at: number }
);

/**
 * Messages sent or registered at `from` or later. `resting`: statuses that are not polled any more.
 */
export interface PollQuery {
  readonly account: string;
  readonly dueBy: number;
  readonly after: number;
  readonly from: number;
  readonly resting: readonly string[];
  /** Statuses that are polled less often: only messages sent by `sentBy` count. */
  readonly rare: { readonly statuses: readonly string[]; readonly sentBy: number };
}

export interface PollCounts {
  readonly due: number;
  /** Registered without the service's id, and not in a final status. */
  readonly unpollable: number;
  readonly missing: number;
}
