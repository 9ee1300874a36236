import type { DeliveryCounts, EventView, statsSchema } from "../model/answers.ts";
import type { AuditFilter, AuditProgress, AuditReport } from "../model/audit.ts";
import type { QueuePlace } from "../model/delivery.ts";
import type { ListenedEvent, ListenPage, ListenRow } from "../model/endpoints/stream.ts";
import type { QuarantinedBody, ReceivedEvent } from "../model/event.ts";
import type { HydrationStart } from "../model/hydration.ts";
import type { DeliveryQuery, EventQuery, MessageQuery, ReplayQuery, RunQuery } from "../model/queries.ts";
import type { DeliveryState, Disposition } from "../model/states.ts";
import type { MessageState, Observation, RunState, Step } from "../model/tracking.ts";
import type { View } from "../model/view.ts";
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

export type SeqBounds = { readonly oldest: number; readonly newest: number } | null;

export interface EventsAbout {
  readonly seqs: readonly number[];
  readonly subjects: readonly { readonly type: "message" | "run"; readonly account: string; readonly key: string }[];
  readonly phone?: string | undefined;
  readonly reference?: string | undefined;
}

export type EventFields = Omit<EventQuery, "wamid" | "subject" | "q" | "before" | "limit">;

export interface EventFilter extends EventFields {
  /** With a phone or reference, all events of the range are read. */
  readonly about?: EventsAbout | undefined;
  readonly wamid?: string | undefined;
  readonly before?: number | undefined;
  readonly after?: number | undefined;
  readonly limit: number;
}

export function releaseView(disposition: Disposition | undefined, release: number | null): Pick<EventView, "releasedAs" | "releasedFrom"> {
  return disposition === "released" ? { releasedAs: release, releasedFrom: null } : { releasedAs: null, releasedFrom: release };
}

export type OfEvent = Pick<DeliveryQuery, "errorCode" | "from" | "to">;
export type OfDelivery = Omit<DeliveryQuery, keyof OfEvent | "state" | "before" | "limit">;

export interface DeliveryFilter extends OfEvent, OfDelivery, Pick<DeliveryQuery, "state"> {
  readonly event?: number | undefined;
  readonly before?: DeliveryPlace | undefined;
  readonly after?: number | undefined;
  readonly limit: number;
}

/** An empty route is past all routes of the event. */
export interface DeliveryPlace {
  readonly event: number;
  readonly route: string;
}

export interface Held {
  /** Seq of the event of the same message that goes out first. */
  readonly behind: number;
  readonly ahead: number;
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

export const noQuarantine: QuarantineCount = { events: 0, oldestAt: null, unassigned: { events: 0, oldestAt: null } };

export interface QuarantineCount {
  readonly events: number;
  readonly oldestAt: number | null;
  /** Of events whose business number no account has. */
  readonly unassigned: Omit<QuarantineCount, "unassigned">;
}

export type SubjectFields = Omit<RunQuery, "runId" | "q" | "before" | "limit">;
export type MessageFields = Omit<MessageQuery, "phone" | "q" | "before" | "limit">;

interface SubjectFilter extends SubjectFields {
  readonly after?: number | undefined;
  readonly before?: number | undefined;
  readonly limit: number;
}

export interface MessageFilter extends SubjectFilter, MessageFields {
  readonly phone?: string | undefined;
  readonly prefix?: string | undefined;
  readonly only?: readonly number[];
  readonly seen?: boolean | undefined;
}

export interface RunFilter extends SubjectFilter {
  readonly runId?: string | undefined;
  readonly prefix?: string | undefined;
}

export type Numbered<V> = V & { readonly seq: number };

/** Since the first use; retention does not lower it. */
export interface StoredSecretUse {
  readonly source: string;
  readonly secret: string;
  /** Quarantined ones, too. */
  readonly events: number;
  readonly duplicates: number;
  readonly firstAt: number;
  readonly lastAt: number;
}

export interface SourceNote {
  readonly source: string;
  /** The business number; null: the sender performed a handshake. */
  readonly number: string | null;
  readonly account: string | null;
  readonly at: number;
}

export const noDeliveries: DeliveryCounts = { deliveries: {}, cause: null };

/** The cause of a dead delivery comes before that of a waiting one; of several, the first in order of text. */
export function addDeliveries(
  { deliveries, cause: known }: DeliveryCounts,
  state: DeliveryState,
  n: number,
  cause: string | null,
): DeliveryCounts {
  const sums = { ...deliveries, [state]: (deliveries[state] ?? 0) + n };
  const { dead } = deliveries;
  if (state === "dead" && dead === undefined) return { deliveries: sums, cause };
  if (state !== "dead" && (state !== "waiting" || dead !== undefined)) return { deliveries: sums, cause: known };
  return { deliveries: sums, cause: known === null || (cause !== null && cause < known) ? cause : known };
}

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
