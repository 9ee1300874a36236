import type { Covering, HydrationEnd, HydrationStore } from "../model/hydration.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { PollStore } from "../model/poll.ts";
import type { SendClaim, SendEnd, SendKey, SentSubject, StoredSend } from "../model/send.ts";

import type { MessageRegistration } from "../track/registration.ts";
import type { DueDelivery } from "./rules.ts";

/** Polls, and counts of calls to the service. */
export interface Polls extends PollStore {
  /** The days from `from` on, earliest first. */
  serviceCalls(account: string, from: number): MaybePromise<readonly DayCalls[]>;
  addServiceCalls(counts: readonly CallCount[]): Promise<void>;
  /** Calls of earlier processes that the caps must count, earliest first. Empty where processes share the caps. */
  recentCalls(account: string, from: number): readonly RecentCall[];
  noteCall(account: string, call: RecentCall): Promise<void>;
}

/** How long the calls of a day stay: longer than a month, whose quota is computed from them. */
export const callsKeptMs = 62 * 86_400_000;
/** Most polls that are counted. More would block the thread that also receives for over 20 ms. */
export const mostCounted = 20_000;

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
  readonly priority: "send" | "interactive" | "poll";
  readonly at: number;
}

/** Hydration passes. Deliveries that a step releases are returned as due. */
export interface Hydrations extends HydrationStore {
  settleTarget(pass: Covering, target: string, wamid: string | null, now: number): Promise<SettledHydrations>;
  settleCovered(pass: Covering, end: HydrationEnd, now: number, limit: number): Promise<SettledHydrations>;
}

export interface SettledHydrations {
  readonly events: number;
  readonly due: readonly DueDelivery[];
}

/** Reconciliation stores when it got an answer. The call began at most this long before. */
const longestCallMs = 15_000;

/** When a message was last read. `readAt`: by a hydration pass. `answeredAt`: when a poll was answered. Null: never. */
export function lastRead(readAt: number | null, answeredAt: number | null): number | null {
  const polledAt = answeredAt === null ? null : answeredAt - longestCallMs;
  return readAt === null ? polledAt : Math.max(readAt, polledAt ?? readAt);
}

/** How long ended passes stay: longer than any period over which their calls are counted. */
export const passesKeptMs = 7 * 86_400_000;
/** Most polled statuses that a truncated event lists. */
export const mostFoundShown = 100;
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

/** The registration of a message that the relay sent. Facts that the service did not return may be registered later. */
export function sentRegistration(account: string, sent: Extract<SentSubject, { type: "message" }>, at: number): MessageRegistration {
  const { wamid, id, conversationId, reference, metadata } = sent;
  return { account, wamid, id: id ?? undefined, conversationId: conversationId ?? undefined, reference, metadata, sentAt: at };
}
