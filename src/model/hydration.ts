/**
 * The hydration of a truncated event (messaging-service-api.md, "Events", 3).
 *
 * | state | meaning | moves to |
 * |---|---|---|
 * | `waiting` | candidate messages are still to be read | `done`, `given-up` |
 * | `done` | every readable candidate was read after the event arrived | |
 * | `given-up` | ended early, or never began: see `reason` | |
 */
export const hydrationStates = ["waiting", "done", "given-up"] as const;

/**
 * `not-readable`: the API has no GET for its subject (automations, unknown kinds); `no-key`: the
 * account has no base URL or API key; `too-long`: `hydrate.giveUpAfter` is over.
 */
export const giveUpReasons = ["not-readable", "no-key", "too-long"] as const;
export type GiveUpReason = (typeof giveUpReasons)[number];

export type HydrationStart =
  | { readonly state: "waiting" }
  | { readonly state: "given-up"; readonly reason: GiveUpReason };

export interface HydrationBrief {
  readonly state: (typeof hydrationStates)[number];
  readonly reason: GiveUpReason | null;
  readonly polled: number;
  readonly found: number;
  readonly unknown: number | null;
}

/**
 * Identifies a pass: it reads the candidate messages of an account for all truncated events that
 * waited when it began.
 */
export interface Covering {
  readonly account: string;
  /** The newest of the events. */
  readonly through: number;
}

export interface HydrationPass extends Covering {
  readonly startedAt: number;
  readonly polled: number;
  /**
   * Of the first covered event: found statuses are submitted with its source and as its
   * consequence.
   */
  readonly source: string;
  readonly because: string;
  readonly covered: CoveredEvents;
}

export interface CoveredEvents {
  readonly events: number;
  /** When the first and the last of them were received. */
  readonly oldest: number;
  readonly newest: number;
}

export interface TrackedMessage {
  readonly message: number;
  /** The service's id; null: it cannot be read. */
  readonly messageId: string | null;
  readonly status: string | null;
  readonly registeredAt: number;
  readonly sentAt: number | null;
  readonly changedAt: number;
  /** When it was last read, by any process; null: never. */
  readonly readAt: number | null;
}

/**
 * Tracked messages that the service may know, after `before`, registered at `from` or later, latest
 * first.
 */
export interface TrackedQuery {
  readonly withId: boolean;
  readonly before: { readonly registeredAt: number; readonly message: number };
  readonly from: number;
  readonly limit: number;
}

/** A message that a pass read. `at`: when the request was sent. */
export interface ReadMessage {
  readonly message: number;
  readonly at: number;
}

/** How covered events end that were received at `receivedBy` or earlier. */
export interface HydrationEnd {
  readonly reason: GiveUpReason | null;
  readonly unknown: number;
  readonly receivedBy: number;
}
