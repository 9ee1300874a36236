import type { Covering, HydrationEnd, HydrationStore } from "../model/hydration.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { PollStore } from "../model/poll.ts";
import type { SendClaim, SendEnd, SendKey, SentSubject, StoredSend } from "../model/send.ts";
import type { DueDelivery } from "./rules.ts";

/** Polls, and counts of calls to the service. */
export interface Asks extends PollStore {
  /** The days from `from` on, earliest first. */
  serviceCalls(account: string, from: number): MaybePromise<readonly DayCalls[]>;
  addServiceCalls(counts: readonly CallCount[]): Promise<void>;
  /** Calls of earlier processes that the caps must count, earliest first. Empty where processes share the caps. */
  recentCalls(account: string, from: number): readonly RecentCall[];
  noteCall(account: string, call: RecentCall): Promise<void>;
}

/** Calls to the service of one day. */
export interface CallCount extends DayCalls {
  readonly account: string;
}

export interface DayCalls {
  /** Unix ms at which the day began. */
  readonly day: number;
  readonly polls: number;
  readonly others: number;
}

/** A call to the service, dispatched at `at` (unix ms). */
export interface RecentCall {
  readonly cap: "requests" | "messages";
  readonly priority: "send" | "ask" | "poll";
  readonly at: number;
}

/** Hydration passes. Deliveries that a step releases are returned as due. */
export interface Hydrations extends HydrationStore {
  settleTarget(sweep: Covering, target: string, wamid: string | null, now: number): Promise<SettledHydrations>;
  settleCovered(sweep: Covering, end: HydrationEnd, now: number, limit: number): Promise<SettledHydrations>;
}

export interface SettledHydrations {
  readonly events: number;
  readonly due: readonly DueDelivery[];
}

/** Longest id of a truncated event that is looked up. */
const mostTarget = 256;
/** Most open runs that are listed as candidates of a truncated event, and most that are counted. */
export const mostCandidates = 20;
export const mostOpenRuns = 10_000;

/** The id in the data of a truncated event. Null: none that can be looked up. */
export function targetOf(data: Readonly<Record<string, unknown>>): string | null {
  const id = data["id"];
  return typeof id === "string" && id !== "" && id.length <= mostTarget ? id : null;
}

/** The store of the send stage: its port `SendStore`. */
export interface Sends {
  findSend(key: SendKey): MaybePromise<StoredSend | null>;
  beginSend(key: SendKey, claim: SendClaim): Promise<StoredSend | null>;
  settleSend(key: SendKey, ended: SendEnd): Promise<readonly DueDelivery[]>;
}

/** The facts in the service's answer to a send. Missing ones may be registered later. */
export function sentFacts({ wamid, id, conversationId, reference, metadata }: Extract<SentSubject, { type: "message" }>) {
  return { wamid, id: id ?? undefined, conversationId: conversationId ?? undefined, reference, metadata };
}
