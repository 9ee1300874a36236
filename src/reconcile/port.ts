import type { MessageKey } from "../event/message-key.ts";
import type { Soon } from "../event/soon.ts";
import type { MessageState } from "../event/tracking.ts";

/** A message that is ours to ask about until `until`. Times are unix ms. */
export interface ClaimedAsk {
  readonly message: MessageKey;
  readonly until: number;
  readonly wamid: string;
  /** The service's. */
  readonly messageId: string;
  readonly state: MessageState;
  /** When it was sent, as far as anybody told. */
  readonly since: number;
  readonly dueAt: number;
  readonly rank: number;
  readonly asks: number;
  /** In a row. */
  readonly failures: number;
  /** 404s in a row that count. */
  readonly misses: number;
  readonly askedAt: number | null;
  /** When hydration began to read it last; null: it never did. */
  readonly readAt: number | null;
}

interface NextAsk {
  readonly end: "again";
  readonly nextAt: number;
  readonly rank: number;
  readonly asks: number;
  readonly failures: number;
  readonly misses: number;
  readonly askedAt: number | null;
}

export type SettledAsk = { readonly message: MessageKey; readonly until: number } & (
  | NextAsk
  | { readonly end: "over" }
  | { readonly end: "missing"; readonly at: number }
);

export interface AskCounts {
  readonly due: number;
  /** Registered without the service's id, and not at rest. */
  readonly unaskable: number;
  /** Of those that the service does not know. */
  readonly missing: number;
}

/** What reconciliation asks of the store. */
export interface AskStore {
  /** In one step: what one claims, nobody else gets until the lease runs out. Those of lower rank first. */
  claimAsks(claim: {
    readonly account: string;
    readonly now: number;
    readonly dueBy: number;
    readonly after: number;
    readonly limit: number;
    readonly leaseMs: number;
  }): Promise<readonly ClaimedAsk[]>;
  /** A claim that has run out meanwhile is left as it is. */
  settleAsks(settled: readonly SettledAsk[]): Promise<void>;
  countAsks(query: {
    readonly account: string;
    readonly dueBy: number;
    readonly after: number;
    readonly from: number;
    readonly resting: readonly string[];
    readonly rare: { readonly statuses: readonly string[]; readonly sentBy: number };
  }): Soon<AskCounts>;
}

export const holdReasons = ["quota", "unauthenticated", "blocked"] as const;
/** Why the service is not asked at all. `until` in unix ms. */
export interface Hold {
  readonly reason: (typeof holdReasons)[number];
  readonly until: number | null;
}

/**
 * Polls of an account fail one after the other. `not-found`: all are answered 404; `refused`: with another 4xx;
 * `unreadable`: with what is no message. `detail` names the last answer, without anything of people's.
 */
export interface PollFault {
  readonly reason: "not-found" | "refused" | "unreadable";
  readonly detail: string;
}

/** Why a pass ended before all that was due was asked. `until` in unix ms, null when not known. */
export type PassStop = Hold | { readonly reason: "unreachable"; readonly until: null } | FaultStop;

/** `until`: when the schedule tries again. */
export interface FaultStop extends PollFault {
  readonly until: number | null;
}

export function isFaultStop(stopped: PassStop | null): stopped is FaultStop {
  return stopped !== null && "detail" in stopped;
}

export type AskAnswer =
  | { readonly type: "found"; readonly wamid: string; readonly status: string; readonly errorCode: string | null }
  /** The service knows no such message. `isCredible`: it found others, so that base URL and key are right. */
  | { readonly type: "missing"; readonly isCredible: boolean }
  | { readonly type: "faulty"; readonly fault: PollFault }
  | { readonly type: "failed"; readonly reason: string }
  | ({ readonly type: "held" } & Hold)
  /** Patience ended before it was asked. */
  | { readonly type: "not-asked" };

/** What reconciliation asks of the messaging service, by account. */
export interface Service {
  /** Accounts that can be asked. */
  accounts(): readonly string[];
  ask(account: string, messageId: string, patience: AbortSignal): Promise<AskAnswer>;
  /** Known without asking; null: nothing is in the way. Once `until` is past, one call may try again. */
  hold(account: string): Hold | null;
}

/** What reconciliation tells and asks of the other stages. */
export interface Tracking {
  /** Whether a status moves a message of this state. */
  moves(state: MessageState, status: string, errorCode: string | null): boolean;
  /** Hands the news in by the front door; true when it was news. */
  learn(account: string, ask: ClaimedAsk, found: Extract<AskAnswer, { type: "found" }>): Promise<boolean>;
}

/** Calls of an account's relay, as counted. */
export interface Calls {
  readonly polls: number;
  readonly others: number;
}

export interface BudgetFacts {
  /** The relay's share of the month's calls; null: unlimited. */
  readonly quota: number | null;
  /** The month whose quota it is, in unix ms. */
  readonly month: { readonly from: number; readonly until: number };
  /** Unix ms at which the day began. */
  readonly day: number;
  readonly now: number;
  /** Of the month, without this day. */
  readonly before: Calls;
  readonly today: Calls;
}

/** The calls counted, and the quota they count against. */
export type BudgetFactsOf = (account: string) => Soon<BudgetFacts>;
