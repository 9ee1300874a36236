import type { MaybePromise } from "../model/maybe-promise.ts";
import type { ClaimedPoll } from "../model/poll.ts";
import type { MessageState } from "../model/tracking.ts";

export const holdReasons = ["quota", "unauthenticated", "blocked"] as const;
/** Why the service is not called at all. `until` in unix ms. */
export interface Hold {
  readonly reason: (typeof holdReasons)[number];
  readonly until: number | null;
}

/**
 * All polls of an account fail. `not-found`: with 404; `refused`: with another 4xx; `unreadable`: the answers are not
 * messages. `detail` names the last answer, without personal data.
 */
export interface PollFault {
  readonly reason: "not-found" | "refused" | "unreadable";
  readonly detail: string;
}

/** Why a pass ended before it polled all due messages. `until` in unix ms, null when unknown. */
export type PassStop = Hold | { readonly reason: "unreachable"; readonly until: null } | FaultStop;

/** `until`: when the schedule tries again. */
export interface FaultStop extends PollFault {
  readonly until: number | null;
}

export function isFaultStop(stopped: PassStop | null): stopped is FaultStop {
  return stopped !== null && "detail" in stopped;
}

export type PollResult =
  | { readonly type: "found"; readonly wamid: string; readonly status: string; readonly errorCode: string | null }
  /** The service does not know the message. `isCredible`: it found others, so base URL and key are right. */
  | { readonly type: "missing"; readonly isCredible: boolean }
  | { readonly type: "faulty"; readonly fault: PollFault }
  | { readonly type: "failed"; readonly reason: string }
  | ({ readonly type: "held" } & Hold)
  /** `signal` was aborted before the call. */
  | { readonly type: "not-polled" };

export interface Service {
  /** Accounts that can be called. */
  accounts(): readonly string[];
  /** `signal` ends the wait for the call; a request in flight continues. */
  poll(account: string, messageId: string, signal: AbortSignal): Promise<PollResult>;
  /** Known without a call; null: none. After `until`, one call may try again. */
  hold(account: string): Hold | null;
}

export interface Tracking {
  /** Whether a status moves a message of this state. */
  moves(state: MessageState, status: string, errorCode: string | null): boolean;
  /** Submits a status like a received event; true when it changed the message. */
  submit(account: string, claim: ClaimedPoll, found: Extract<PollResult, { type: "found" }>): Promise<boolean>;
}

export interface Calls {
  readonly polls: number;
  readonly others: number;
}

export interface BudgetFacts {
  /** The relay's share of the month's calls; null: unlimited. */
  readonly quota: number | null;
  /** The month of the quota, in unix ms. */
  readonly month: { readonly from: number; readonly until: number };
  /** Unix ms at which the day began. */
  readonly day: number;
  readonly now: number;
  /** Of the month, without this day. */
  readonly before: Calls;
  readonly today: Calls;
}

export type BudgetFactsOf = (account: string) => MaybePromise<BudgetFacts>;
