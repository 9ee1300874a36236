import type { GiveUpReason } from "../event/hydration.ts";
import type { MessageKey } from "../event/message-key.ts";
import type { Soon } from "../event/soon.ts";

/**
 * One pass over the messages of an account that could be meant, on behalf of all truncated events that waited when it
 * began. Times are unix ms.
 */
export interface Sweep {
  /** Names it within the store. */
  readonly seq: number | string;
  readonly account: string;
  /** Events up to this seq are covered. */
  readonly through: number;
  readonly startedAt: number;
  /** Asked so far, before a restart too. */
  readonly asked: number;
  /** Of the first event covered: what is learned is told as if it had come that way, because of it. */
  readonly source: string;
  readonly because: string;
  readonly covered: Covered;
}

/** The covered events that still wait. */
export interface Covered {
  readonly events: number;
  /** When the first and the last of them were received. */
  readonly oldest: number;
  readonly newest: number;
}

/** A tracked message, as far as it matters for whether it could be meant. */
export interface TrackedMessage {
  readonly message: MessageKey;
  /** The service's id; null: it cannot be read. */
  readonly messageId: string | null;
  readonly status: string | null;
  readonly registeredAt: number;
  /** When it was sent, as far as anybody told. */
  readonly sentAt: number | null;
  readonly changedAt: number;
  /** It has been read no earlier than this, by whomever; null: never. */
  readonly askedAt: number | null;
  /** The service does not know it. */
  readonly isMissing: boolean;
}

/** A place in the order of messages, latest registered first. */
export interface Place {
  readonly registeredAt: number;
  /** Null: before the first one registered then. */
  readonly message: MessageKey | null;
}

export interface Settled {
  /** Events settled in this step; fewer than asked for: there are no more. */
  readonly events: number;
}

/** What hydration asks of the store. */
export interface HydrationStore {
  /** Accounts with truncated events that wait. */
  waitingAccounts(): Soon<readonly string[]>;
  /** When the first of an account's waiting events was received; null: none waits. */
  waitingSince(account: string): Soon<number | null>;
  /** Goes on with the account's sweep, or begins one over all that wait; null: nothing waits, or another process has it. One sweep at a time per account. */
  beginSweep(account: string, now: number): Promise<Sweep | null>;
  /** The covered events that wait now; null: none. */
  covered(sweep: Sweep): Soon<Covered | null>;
  /** The ids that covered events came with, each once. */
  targets(sweep: Sweep, limit: number): Soon<readonly string[]>;
  /** What the service said of such an id: events with it are settled, or, when the id names no message, left to the sweep. */
  settleTarget(sweep: Sweep, target: string, wamid: string | null, now: number): Promise<Settled>;
  /** Tracked messages of the account after `before`, registered at `from` or later, latest first; with or without the service's id. */
  trackedMessages(
    account: string,
    query: { readonly withId: boolean; readonly before: Place; readonly from: number; readonly limit: number },
  ): Soon<readonly TrackedMessage[]>;
  /** Remembers what was asked: `at` is when the request left. */
  noteAsked(sweep: Sweep, asked: number, read: readonly { message: MessageKey; at: number }[]): Promise<void>;
  /** Calls that sweeps of the account made since `since`. */
  callsSince(account: string, since: number): Soon<number>;
  /** Ends covered events received at `receivedBy` or earlier, at most `limit` of them. */
  settleCovered(
    sweep: Sweep,
    end: { readonly reason: GiveUpReason | null; readonly unknown: number; readonly receivedBy: number },
    now: number,
    limit: number,
  ): Promise<Settled>;
  endSweep(sweep: Sweep, now: number): Promise<void>;
}

/** What the service says of one message. `at` is when the request left, in unix ms. */
export type ReadAnswer =
  | { readonly type: "told"; readonly at: number; readonly told: ToldStatus }
  /** It knows no such message. `isCredible`: it found others, so that base URL and key are right. */
  | { readonly type: "missing"; readonly at: number; readonly isCredible: boolean }
  /** Asking for this id is refused for good. */
  | { readonly type: "refused" }
  /** Not now; `until` (unix ms) where that is known. */
  | { readonly type: "later"; readonly until: number | null }
  /** The account has no base URL or key. */
  | { readonly type: "no-key" };

export interface ToldStatus {
  readonly messageId: string;
  readonly wamid: string;
  readonly status: string;
  readonly errorCode: string | null;
}

/** News that a truncated event may have been about. */
export interface News extends ToldStatus {
  readonly account: string;
  readonly source: string;
  readonly because: string;
}

/** What hydration asks of the other stages. */
export interface Outside {
  read(account: string, messageId: string, signal: AbortSignal): Promise<ReadAnswer>;
  /** Hands a status in by the front door when it moves the message; true when it was news. */
  learn(news: News): Promise<boolean>;
}
