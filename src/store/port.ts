import type { QueuePlace } from "../model/delivery.ts";
import type { QuarantinedBody, ReceivedEvent } from "../model/event.ts";
import type { HydrationStart } from "../model/hydration.ts";
import type { ReplayQuery } from "../model/queries.ts";
import type { DeliveryState } from "../model/states.ts";
import type { MessageState, Observation, RunState, Step } from "../model/tracking.ts";
import type { Planner } from "../track/planning.ts";
import type { Conflicts } from "../track/registration.ts";

/** The disk is full, the file is locked, the server does not answer, …: no fault of what is stored. */
export class StoreUnavailable extends Error {
  override readonly name = "StoreUnavailable";
}

/** The store cannot be opened; `message` is one line that says why and what to do. */
export class StoreRefused extends Error {
  override readonly name = "StoreRefused";
}

export class StoreMissing extends StoreRefused {}

/**
 * The pure functions of tracking and routing that the store calls within its own step. They change when settings are reloaded.
 */
export interface Rules extends Planner {
  stepMessage(state: MessageState, seen: Observation): Step<MessageState>;
  stepRun(state: RunState, seen: Observation): Step<RunState>;
  /** How the hydration of a truncated event begins. Null: it needs none. */
  hydration(event: { readonly event: string; readonly account: string; readonly hasSubject: boolean }): HydrationStart | null;
  /** The wait before a first attempt is in ms. */
  timing(route: string): { readonly ordered: boolean; readonly firstWait: number };
  /** Milliseconds. */
  readonly parkFor: number;
}

/** A waiting delivery and when it is due. */
export interface DueDelivery extends QueuePlace {
  readonly route: string;
}

export type AcceptOutcome =
  | { readonly result: "accepted"; readonly seq: number; readonly disposition: string; readonly due: readonly DueDelivery[] }
  /** `conflict`: the id is known with other bytes. */
  | { readonly result: "duplicate"; readonly seq: number; readonly conflict: boolean };

export type Registered =
  | { readonly result: "created" | "known"; readonly due: readonly DueDelivery[] }
  | { readonly result: "conflict"; readonly conflicts: Conflicts };

export interface StoreHooks {
  committed(tookMs: number, writes: number): void;
  /** The store cannot write now. May be called repeatedly. */
  failed(error: unknown): void;
  /** More events can come within this turn of the event loop. */
  readonly arriving?: (() => boolean) | undefined;
}

export interface DueListener {
  offer(due: readonly DueDelivery[]): void;
  wake(route: string): void;
}

export interface StoredCursor {
  readonly name: string;
  readonly seq: number;
  readonly movedAt: number;
}

/** Milliseconds. */
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
  /** All old rows were looked at, and the freed space is returned to the disk. */
  readonly done: boolean;
}

export interface ReplayFilter extends Omit<ReplayQuery, "disposition" | "source" | "event" | "states"> {
  readonly states: readonly ReplayQuery["states"][number][];
}

export interface BackfillFilter extends Omit<ReplayFilter, "states" | "cause"> {
  readonly disposition: "filtered" | "ignored";
}

/** It began at `since`: what settled later is skipped. */
export interface ReplayCursor {
  readonly since: number;
  readonly event: number;
  readonly lane: number;
  readonly route: string;
}

export interface ReplayFound {
  readonly found: readonly { readonly event: number; readonly route: string }[];
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

export interface QuarantineFilter extends Pick<ReplayQuery, "accounts" | "from" | "to" | "source"> {
  readonly disposition?: "quarantined" | "unassigned" | undefined;
}

export interface QuarantinedEvent extends Omit<QuarantinedBody, "secret" | "error" | "id"> {
  readonly seq: number;
}

export interface QuarantinedFound {
  readonly found: readonly QuarantinedEvent[];
  readonly cursor: ReplayCursor | null;
}

export interface ReleasedEvent extends ReceivedEvent {
  readonly releaseOf: number;
}
