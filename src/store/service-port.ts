import type { GiveUpReason } from "../model/hydration.ts";
import type { EventId } from "../model/ids.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { MessageKey } from "../model/message.ts";
import type { AskStore } from "../model/poll.ts";
import type { KeyHeld, SendKey } from "../model/send.ts";
import type { DueDelivery } from "./rules.ts";

/** Polls, and counts of calls to the service. */
export interface Asks extends AskStore {
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

/** The store of hydration: its port `HydrationStore`. Deliveries that it releases are returned as due. */
export interface Hydrations {
  waitingAccounts(): MaybePromise<readonly string[]>;
  waitingSince(account: string): MaybePromise<number | null>;
  /** Continues the account's pass, whichever process began it, or begins one. Null: no event waits. One pass per account. */
  beginSweep(account: string, now: number): Promise<SweepView | null>;
  covered(sweep: Covering): MaybePromise<CoveredEvents | null>;
  targets(sweep: Covering, limit: number): MaybePromise<readonly string[]>;
  /** `wamid`: of the message with this id. Null: the service has none, and the pass settles the events. */
  settleTarget(sweep: Covering, target: string, wamid: string | null, now: number): Promise<SettledHydrations>;
  trackedMessages(account: string, query: TrackedQuery): MaybePromise<readonly TrackedView[]>;
  noteAsked(sweep: Covering, asked: number, read: readonly ReadMessage[]): Promise<void>;
  callsSince(account: string, since: number): MaybePromise<number>;
  settleCovered(sweep: Covering, end: HydrationEnd, now: number, limit: number): Promise<SettledHydrations>;
  endSweep(sweep: Covering, now: number): Promise<void>;
}

/** Identifies a hydration pass and the events that it covers. */
export interface Covering {
  /** Identifies the pass within the store. */
  readonly seq: number | string;
  readonly account: string;
  /** Events up to this seq are covered. */
  readonly through: number;
}

/** The covered events that are still waiting. */
export interface CoveredEvents {
  readonly events: number;
  /** When the first and the last of them were received, in unix ms. */
  readonly oldest: number;
  readonly newest: number;
}

export interface SweepView extends Covering {
  readonly startedAt: number;
  readonly asked: number;
  readonly source: string;
  readonly because: EventId;
  readonly covered: CoveredEvents;
}

export interface HydrationEnd {
  readonly reason: GiveUpReason | null;
  readonly unknown: number;
  /** Unix ms. */
  readonly receivedBy: number;
}

export interface SettledHydrations {
  readonly events: number;
  readonly due: readonly DueDelivery[];
}

export interface TrackedQuery {
  readonly withId: boolean;
  /** A place in the list, latest registration first. `message` null: before the first one of that time. */
  readonly before: { readonly registeredAt: number; readonly message: MessageKey | null };
  readonly from: number;
  readonly limit: number;
}

export interface TrackedView {
  readonly message: MessageKey;
  readonly messageId: string | null;
  readonly status: string | null;
  readonly registeredAt: number;
  readonly sentAt: number | null;
  readonly changedAt: number;
  readonly askedAt: number | null;
  readonly isMissing: boolean;
}

/** A message that a hydration pass read. `at`: when it sent the request. */
export interface ReadMessage {
  readonly message: MessageKey;
  readonly at: number;
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

export interface SendClaim {
  readonly fingerprint: string;
  readonly resend: number;
  readonly about: string;
  /** Unix ms. */
  readonly at: number;
}

export interface StoredSend extends KeyHeld {
  readonly about: string;
  /** Unix ms. */
  readonly startedAt: number;
  readonly answer: Readonly<Record<string, unknown>> | null;
}

export type SendEnd =
  | { readonly end: "not-done" | "unknown" }
  | { readonly end: "done"; readonly at: number; readonly answer: Readonly<Record<string, unknown>>; readonly sent: SentSubject };

/** A message or run sent through the relay, as the service answered. */
export type SentSubject =
  | {
      readonly type: "message";
      readonly id: string | null;
      readonly wamid: string;
      readonly status: string;
      readonly conversationId: string | null;
      readonly reference: string | undefined;
      readonly metadata: Readonly<Record<string, unknown>> | undefined;
    }
  | {
      readonly type: "run";
      readonly runId: string;
      readonly reference: string;
      readonly metadata: Readonly<Record<string, unknown>> | undefined;
    };

/** The facts in the service's answer to a send. Missing ones may be registered later. */
export function sentFacts({ wamid, id, conversationId, reference, metadata }: Extract<SentSubject, { type: "message" }>) {
  return { wamid, id: id ?? undefined, conversationId: conversationId ?? undefined, reference, metadata };
}
