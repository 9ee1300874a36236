/**
 * What the relay does about an event that the service sent without its data (messaging-service-api.md, "Events", 3).
 *
 * | state | meaning | moves to |
 * |---|---|---|
 * | `waiting` | the messages that could be meant are still being read | `done`, `given-up` |
 * | `done` | every one that can be read has been read since the event came | |
 * | `given-up` | that did not come to its end, or never began: `reason` says why | |
 */
export const hydrationStates = ["waiting", "done", "given-up"] as const;
export type HydrationState = (typeof hydrationStates)[number];

/**
 * Why a hydration was given up. `not-readable`: the API has no way to read what it was about (automations, unknown
 * kinds); `no-key`: the account has no base URL or API key; `too-long`: `hydrate.giveUpAfter` was over.
 */
export const giveUpReasons = ["not-readable", "no-key", "too-long"] as const;
export type GiveUpReason = (typeof giveUpReasons)[number];

/** How a hydration begins: it waits, or is over at once. */
export type HydrationStart = { readonly state: "waiting" } | { readonly state: "given-up"; readonly reason: GiveUpReason };

/** An open run of the account, which a truncated result of an automation may be about. */
export interface CandidateRun {
  readonly runId: string;
  readonly reference: string | null;
}

/** What the relay knows about a truncated event, in few words: the part that goes downstream with `payload: enriched`. */
export interface HydrationBrief {
  readonly state: HydrationState;
  readonly reason: GiveUpReason | null;
  /** Messages that the service was asked about. */
  readonly asked: number;
  /** News learned by asking since the event came. */
  readonly found: number;
  /** Tracked messages or runs that could be meant and were not read; null: not counted. */
  readonly unknown: number | null;
  /** The latest open runs, for results of automations; null for everything else. */
  readonly candidates: readonly CandidateRun[] | null;
}
