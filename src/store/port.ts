import type { DeliveryCounts } from "../model/answers/events.ts";
import type { statsSchema } from "../model/answers/relay.ts";
import type { AuditFilter, AuditProgress, AuditReport } from "../model/audit.ts";
import type { QueuePlace } from "../model/delivery.ts";
import type { ListenedEvent, ListenPage, ListenRow } from "../model/endpoints/stream.ts";
import type { QuarantinedBody, ReceivedEvent } from "../model/event.ts";
import type { HydrationStart } from "../model/hydration.ts";
import type { ReplayQuery } from "../model/queries.ts";
import type { DeliveryState } from "../model/states.ts";
import type { MessageState, Observation, RunState, Step } from "../model/tracking.ts";
import type { View } from "../model/view.ts";
import type { Planner } from "../track/planning.ts";
import type { Conflicts } from "../track/registration.ts";

/**
 * The disk is full, the file is locked, the server does not answer, …: no fault of what is stored.
 */
export class StoreUnavailable extends Error {
  override readonly name = "StoreUnavailable";
}

/** No waiting repairs it: it was moved, deleted or damaged. `message` says what to do. */
export class StoreLost extends StoreUnavailable {}

/** The store cannot be opened; `message` is one line that says why and what to do. */
export class StoreRefused extends Error {
  override readonly name = "StoreRefused";
}

export class StoreMissing extends StoreRefused {}

/** Of the database or the system; empty without one. */
export const faultCode = (error: unknown): string =>
  String((error as { code?: unknown } | null)?.code ?? "");

/**
 * The pure functions of tracking and routing that the store calls within its own step. They change
 * when settings are reloaded.
 */
export interface Rules extends Planner {
  stepMessage(state: MessageState, seen: Observation): Step<MessageState>;
  stepRun(state: RunState, seen: Observation): Step<RunState>;
  /** How the hydration of a truncated event begins. Null: it needs none. */
  hydration(event: {
    readonly event: string;
    readonly account: string;
    readonly hasSubject: boolean;
  }): HydrationStart | null;
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
  | {
      readonly result: "accepted";
      readonly seq: number;
      readonly disposition: string;
      readonly due: readonly DueDelivery[];
    }
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

export interface ReplayFilter
  extends Omit<ReplayQuery, "disposition" | "source" | "event" | "states"> {
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

export interface QuarantinedEvent extends Omit<QuarantinedBody, "secret" | "error" | "id"> {
  readonly seq: number;
}

export interface ReleasedEvent extends ReceivedEvent {
  readonly releaseOf: number;
}

export type SeqBounds = { readonly oldest: number; readonly newest: number } | null;

/** An empty route is past all routes of the event. */
export interface DeliveryPlace {
  readonly event: number;
  readonly route: string;
}

export interface RouteBacklog {
  route: string;
  waiting: number;
  held: number;
  dead: number;
  oldestDueAt: number | null;
  /** Of the oldest event's dead letter. */
  deadSince: number | null;
}

export const noQuarantine: QuarantineCount = {
  events: 0,
  oldestAt: null,
  unassigned: { events: 0, oldestAt: null },
};

export interface QuarantineCount {
  readonly events: number;
  readonly oldestAt: number | null;
  /** Of events whose business number no account has. */
  readonly unassigned: Omit<QuarantineCount, "unassigned">;
}

export interface SourceNote {
  readonly source: string;
  /** The business number; null: the sender performed a handshake. */
  readonly number: string | null;
  readonly account: string | null;
  readonly at: number;
}

export const noDeliveries: DeliveryCounts = { deliveries: {}, cause: null };

/** `event` is called only when `row` returned true. */
export interface Wanted {
  row(row: ListenRow): boolean;
  readonly event: ((event: ListenedEvent) => boolean) | null;
}

export type OpenPage = <T>(use: (page: ListenPage) => T) => T;

/** Rejects with `StoreUnavailable` when the store cannot be read, or after `close`. */
export interface Inspecting {
  stats(): Promise<Stats>;
  audit(order: AuditOrder, progress: (at: AuditProgress) => void): Promise<AuditReport>;
  close(): Promise<void>;
}

export type Stats = View<typeof statsSchema>;

export interface AuditOrder extends AuditFilter {
  readonly now: number;
  /** Nothing due should be left then. */
  readonly isRunning: boolean;
  /** Offenders that the report lists; the others are counted. */
  readonly mostOffenders?: number;
}
