import type { MessageKey } from "../event/message-key.ts";
import type { MessageState } from "../event/tracking.ts";

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
