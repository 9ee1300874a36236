import type { GiveUpReason } from "../event/hydration.ts";
import type { EventId } from "../event/ids.ts";
import type { MessageKey } from "../event/message-key.ts";
import type { KeyHeld, SendKey } from "../event/send-key.ts";
import type { Soon } from "../event/soon.ts";
import type { MessageState } from "../event/tracking.ts";
import type { DueDelivery } from "./rules.ts";

/** The store of reconciliation: its port `AskStore`, and the calls made to the service. */
export interface Asks {
  claimAsks(claim: AskClaim): Promise<readonly ClaimedAsk[]>;
  settleAsks(settled: readonly SettledAsk[]): Promise<void>;
  countAsks(query: AskQuery): Soon<AskCounts>;
  /** The days from `from` on, earliest first. */
  serviceCalls(account: string, from: number): Soon<readonly DayCalls[]>;
  addServiceCalls(counts: readonly CallCount[]): Promise<void>;
  /** Calls of processes that are no more which the caps must count, earliest first; none where processes share the caps themselves. */
  recentCalls(account: string, from: number): readonly RecentCall[];
  noteCall(account: string, call: RecentCall): Promise<void>;
}

/** Which asks to claim. Times are unix ms. */
export interface AskClaim {
  readonly account: string;
  readonly now: number;
  /** Only what was due by then, which is `now` or earlier. */
  readonly dueBy: number;
  /** How long after the send a message is asked about for the first time. */
  readonly after: number;
  readonly limit: number;
  /** How long the claim holds unless it is settled, so that a crash loses none. */
  readonly leaseMs: number;
}

/** A message that nobody else asks about until `until`. */
export interface ClaimedAsk {
  readonly message: MessageKey;
  readonly until: number;
  readonly wamid: string;
  /** The service's. */
  readonly messageId: string;
  readonly state: MessageState;
  /** When it was sent, as far as anybody told. */
  readonly since: number;
  /** When it was due. */
  readonly dueAt: number;
  readonly rank: number;
  readonly asks: number;
  readonly failures: number;
  /** 404s in a row that count. */
  readonly misses: number;
  readonly askedAt: number | null;
  /** When a call that read it for a truncated event left; null: none did. */
  readonly readAt: number | null;
}

/** What became of a claim; one that has run out meanwhile is left to whoever has it now. */
export type SettledAsk = { readonly message: MessageKey; readonly until: number } & (
  | {
      readonly end: "again";
      readonly nextAt: number;
      readonly rank: number;
      readonly asks: number;
      readonly failures: number;
      readonly misses: number;
      readonly askedAt: number | null;
    }
  /** It has come to rest, or is too old. */
  | { readonly end: "over" }
  /** The service does not know it: it is not claimed again until an event or a registration shows that it exists. */
  | { readonly end: "missing"; readonly at: number }
);

export interface AskQuery {
  readonly account: string;
  readonly dueBy: number;
  readonly after: number;
  /** Sent or registered no earlier. */
  readonly from: number;
  /** Statuses that are not asked about any more. */
  readonly resting: readonly string[];
  /** Statuses that are asked about more rarely: not before those sent by `sentBy` (unix ms), however often they were asked about. */
  readonly rare: { readonly statuses: readonly string[]; readonly sentBy: number };
}

export interface AskCounts {
  readonly due: number;
  /** Registered without the service's id, and not at rest. */
  readonly unaskable: number;
  /** Of those that the service does not know. */
  readonly missing: number;
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

/** A call to the service, let go at `at` (unix ms). */
export interface RecentCall {
  readonly cap: "requests" | "messages";
  readonly priority: "send" | "ask" | "poll";
  readonly at: number;
}

/** The store of hydration: its port `HydrationStore`. Deliveries that it releases are returned as due. */
export interface Hydrations {
  waitingAccounts(): Soon<readonly string[]>;
  waitingSince(account: string): Soon<number | null>;
  /** Goes on with the account's sweep, whichever process began it, or begins one; null: nothing waits. One at a time per account. */
  beginSweep(account: string, now: number): Promise<SweepView | null>;
  covered(sweep: Covering): Soon<CoveredEvents | null>;
  targets(sweep: Covering, limit: number): Soon<readonly string[]>;
  /** `wamid`: of the message that the service has under this id; null: it has none, and the events are left to the sweep. */
  settleTarget(sweep: Covering, target: string, wamid: string | null, now: number): Promise<SettledHydrations>;
  trackedMessages(account: string, query: TrackedQuery): Soon<readonly TrackedView[]>;
  noteAsked(sweep: Covering, asked: number, read: readonly ReadMessage[]): Promise<void>;
  callsSince(account: string, since: number): Soon<number>;
  settleCovered(sweep: Covering, end: HydrationEnd, now: number, limit: number): Promise<SettledHydrations>;
  endSweep(sweep: Covering, now: number): Promise<void>;
}

/** The part of a sweep that says which events it covers. */
export interface Covering {
  /** Names the sweep within the store. */
  readonly seq: number | string;
  readonly account: string;
  /** Events up to this seq are covered. */
  readonly through: number;
}

/** The covered events that still wait. */
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
  /** A place in the order of messages, latest registered first; `message` null: before the first one registered then. */
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

/** A message that was read for a sweep; `at` is when the request left. */
export interface ReadMessage {
  readonly message: MessageKey;
  readonly at: number;
}

/** Longest id that a truncated event is read by. */
const mostTarget = 256;
/** Open runs that are named with a truncated result, and so many of them counted. */
export const mostCandidates = 20;
export const mostOpenRuns = 10_000;

/** The id that a truncated event came with; null: none that can be asked for. */
export function targetOf(data: Readonly<Record<string, unknown>>): string | null {
  const id = data["id"];
  return typeof id === "string" && id !== "" && id.length <= mostTarget ? id : null;
}

/** The store of the send stage: its port `SendStore`. */
export interface Sends {
  findSend(key: SendKey): Soon<StoredSend | null>;
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

/** What was sent through the relay, as the service answered. */
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

/** What an answer of the service tells of a message that was sent; what it left out may be registered later. */
export function sentFacts({ wamid, id, conversationId, reference, metadata }: Extract<SentSubject, { type: "message" }>) {
  return { wamid, id: id ?? undefined, conversationId: conversationId ?? undefined, reference, metadata };
}
