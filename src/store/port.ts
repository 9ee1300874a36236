import type { DeliveryState } from "../model/delivery.ts";
import type { QuarantinedBody, ReceivedEvent } from "../model/event.ts";
import type { HydrationStart } from "../model/hydration.ts";
import type { Disposition } from "../model/plan.ts";
import type { Limited } from "../model/queries.ts";
import type { MessageState, Observation, RunState, Step } from "../model/tracking.ts";
import type { Planner } from "../track/planning.ts";
import type { Conflicts } from "../track/registration.ts";

/** Storing failed for a reason outside the event itself: disk full, file locked, read-only, broken. */
export class StoreUnavailable extends Error {
  override readonly name = "StoreUnavailable";
}

/** The store cannot be opened; `message` is one line that says why and what to do. */
export class StoreRefused extends Error {
  override readonly name = "StoreRefused";
}

/** There is nothing to read yet, where the next relay makes a store. */
export class StoreMissing extends StoreRefused {}

/**
 * The pure functions of tracking and routing that the store calls within its own step, so that tracking and planning are
 * atomic. `plan` and the two settings change when the settings are reloaded.
 */
export interface Rules extends Planner {
  stepMessage(state: MessageState, seen: Observation): Step<MessageState>;
  stepRun(state: RunState, seen: Observation): Step<RunState>;
  /** How the hydration of a truncated event begins. Null: it needs none. */
  hydration(event: { readonly event: string; readonly account: string; readonly hasSubject: boolean }): HydrationStart | null;
  /** Whether the route delivers the events of a message in order, and the wait before a first attempt in ms. */
  timing(route: string): { readonly ordered: boolean; readonly firstWait: number };
  /** How long an event may stay parked, in milliseconds. */
  readonly parkFor: number;
}

/** A waiting delivery and when it is due. `event` is the event's seq, `at` unix ms. */
export interface DueDelivery {
  readonly route: string;
  readonly event: number;
  readonly at: number;
  /** By which it is loaded and settled. */
  readonly lane: number;
}

export type AcceptOutcome =
  | { readonly result: "accepted"; readonly seq: number; readonly disposition: string; readonly due: readonly DueDelivery[] }
  /** `conflict`: the id is known with other bytes. */
  | { readonly result: "duplicate"; readonly seq: number; readonly conflict: boolean };

export type Registered =
  | { readonly result: "created" | "known"; readonly due: readonly DueDelivery[] }
  | { readonly result: "conflict"; readonly conflicts: Conflicts };

export interface StoreHooks {
  /** Writes were committed: the time that took, and their number. */
  committed(tookMs: number, writes: number): void;
  /** The store cannot write now. May be called repeatedly. */
  failed(error: unknown): void;
  /** True while more events can be expected within one turn of the event loop. Default: never. */
  readonly arriving?: (() => boolean) | undefined;
}

export interface DueListener {
  /** Deliveries that were planned or released; `at` is unix ms. */
  offer(due: readonly DueDelivery[]): void;
  /** Another change to the deliveries of a route: the dispatcher reads them again. */
  wake(route: string): void;
}

export interface StoredCursor {
  readonly name: string;
  readonly seq: number;
  /** Unix ms. */
  readonly movedAt: number;
}

/** How long rows are kept, in milliseconds (DESIGN.md, `retention`). */
export interface RetentionTimes {
  readonly events: number;
  readonly ignored: number;
  readonly deliveries: number;
  readonly messages: number;
  readonly history: number;
}

export interface Purged {
  readonly events: number;
  readonly deliveries: number;
  readonly messages: number;
  /** True when a pass over all old rows is complete and the freed space is returned to the disk. */
  readonly done: boolean;
}

/** Which deliveries go out now. All given conditions must hold. */
export interface ReplayFilter extends Limited {
  readonly route?: string | undefined;
  /** `waiting` stands alone. */
  readonly states: readonly Exclude<DeliveryState, "held">[];
  /** Of the last failed attempt; null: none failed. */
  readonly cause?: string | null | undefined;
  readonly errorCode?: string | undefined;
  /** Unix ms of acceptance, from (included) and to (not included). */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

/** Which unrouted events to backfill by the current routes. All given conditions must hold. */
export interface BackfillFilter extends Limited {
  readonly disposition: Extract<Disposition, "filtered" | "ignored">;
  /** Only this route may get them. */
  readonly route?: string | undefined;
  readonly errorCode?: string | undefined;
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

/** The position of a walk. It began at `since` (unix ms), so it skips what settled later. The other parts are the store's own. */
export interface ReplayCursor {
  readonly since: number;
  readonly event: number;
  readonly lane: number;
  readonly route: string;
}

export interface ReplayFound {
  readonly found: readonly { readonly event: number; readonly route: string }[];
  /** Null when the walk is over. */
  readonly cursor: ReplayCursor | null;
}

export interface Replayed {
  readonly replayed: number;
  readonly due: readonly DueDelivery[];
}

export interface Retried {
  readonly state: DeliveryState;
  readonly due: DueDelivery | null;
}

/** Which quarantined bodies to release. All given conditions must hold. */
export interface QuarantineFilter extends Limited {
  /** Default: `quarantined`. */
  readonly disposition?: "quarantined" | "unassigned" | undefined;
  readonly source?: string | undefined;
  /** Unix ms of receipt, from (included) and to (not included). */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

export interface QuarantinedEvent extends Omit<QuarantinedBody, "secret" | "error" | "id"> {
  readonly seq: number;
}

export interface QuarantinedFound {
  readonly found: readonly QuarantinedEvent[];
  /** Null when the walk is over. `route` of it is the time of receipt. */
  readonly cursor: ReplayCursor | null;
}

export interface ReleasedEvent extends ReceivedEvent {
  readonly releaseOf: number;
}

/** What one process observed of an account's webhooks within a few seconds. */
export interface AccountObservation extends ObservationCounts {
  readonly account: string;
  /** Unix ms. */
  readonly at: number;
  /** Absent: it made no polls. */
  readonly polls?: PollNews;
}

export interface ObservationCounts {
  readonly events: number;
  /** Of them, truncated and about a message. */
  readonly truncated: number;
  readonly refused: number;
  readonly registered: number;
  /** Statuses that polls found and whose webhook did not arrive. */
  readonly missed: number;
}

/** The fault of the last polls, as a text for people. Null: none. */
export type PollNews = string | null;

export interface ObservationsRead {
  /** Oldest first. */
  readonly observations: readonly AccountObservation[];
  /** Where the next read continues. An internal value of the store. */
  readonly place: string | null;
}
