import type { Hold, PollFault } from "./port.ts";

/** Why a pass ended before all that was due was asked. `until` in unix ms, null when not known. */
export type PassStop = Hold | { readonly reason: "unreachable"; readonly until: null } | FaultStop;

/** `until`: when the schedule tries again. */
export interface FaultStop extends PollFault {
  readonly until: number | null;
}

export function isFaultStop(stopped: PassStop | null): stopped is FaultStop {
  return stopped !== null && "detail" in stopped;
}

/** What a pass did about one account. */
export interface AccountSummary {
  readonly account: string;
  /** Calls that were answered or failed. */
  readonly asked: number;
  /** Of these, those that told of a status nobody had reported. */
  readonly changed: number;
  readonly unchanged: number;
  /** Answered 404, or with another message; polled no more once that is certain. */
  readonly missing: number;
  /** No answer, or none of use: asked again later. */
  readonly failed: number;
  /** Due, but postponed so that the month's quota lasts. */
  readonly leftForBudget: number;
  /** Known by wamid alone: nobody can ask about them. */
  readonly unaskable: number;
  readonly stopped: PassStop | null;
  /** Unix ms at which the quota would be used up if all were asked that is due; null: it lasts. */
  readonly lastsUntil: number | null;
  /** More is due that could be asked at once. */
  readonly more: boolean;
}

/** What a pass would do, without asking anything. */
export interface AccountPlan {
  readonly account: string;
  readonly due: number;
  /** Calls that a pass would make at most. */
  readonly wouldAsk: number;
  readonly leftForBudget: number;
  readonly unaskable: number;
  /** Not known to the service, and polled no more. */
  readonly missing: number;
  readonly stopped: PassStop | null;
  readonly lastsUntil: number | null;
}
