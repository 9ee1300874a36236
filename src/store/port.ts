import type { AlarmName, StoredAlarm } from "../model/alarm.ts";
import type { DeliveryState, RouteNotes, Settlement } from "../model/delivery.ts";
import type { QuarantinedBody, ReceivedEvent } from "../model/event.ts";
import type { GaugeSample } from "../model/history.ts";
import type { EventId } from "../model/ids.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { Disposition } from "../model/plan.ts";
import type { LastPass } from "../model/poll.ts";
import type { Limited } from "../model/queries.ts";
import type { MessageState } from "../model/tracking.ts";
import type { MessageRegistration } from "../track/registration.ts";
import type { Inspecting, StoreReading } from "./reading.ts";
import type { AcceptOutcome, DueDelivery, Registered } from "./rules.ts";
import type { Hydrations, Polls, Sends } from "./service-port.ts";
import type { SourceNote } from "./views.ts";

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

/** What a store reports to its owner. */
export interface StoreHooks {
  /** Writes were committed: the time that took, and their number. */
  committed(tookMs: number, writes: number): void;
  /** The store cannot write now. May be called repeatedly. */
  failed(error: unknown): void;
  /** True while more events can be expected within one turn of the event loop. Default: never. */
  readonly arriving?: (() => boolean) | undefined;
}

/** The dispatcher of this process. */
export interface DueListener {
  /** Deliveries that were planned or released; `at` is unix ms. */
  offer(due: readonly DueDelivery[]): void;
  /** Another change to the deliveries of a route: the dispatcher reads them again. */
  wake(route: string): void;
}

/** The position of a named listener. */
export interface StoredCursor {
  readonly name: string;
  readonly seq: number;
  /** Unix ms. */
  readonly movedAt: number;
}

/**
 * The port of both engines. Workers claim and settle deliveries through ports of their own. Each write is atomic, and
 * durable once its promise resolves. While the store cannot write, writes reject with `StoreUnavailable`; they succeed
 * again without a restart. Times are unix ms. A delivery is named by its route and the seq of its event.
 */
export interface Store
  extends Accepting,
    Replays,
    Quarantine,
    Sends,
    Polls,
    Hydrations,
    Observations,
    Claims,
    Housekeeping,
    HistoryWriting {
  readonly read: StoreReading;
  /** The same reads for pages, which may go through many rows. */
  readonly browse: StoreReading;
  readonly inspecting: Inspecting;
  /** True when other processes write to it too. Work that one process must do alone then takes a leader lease. */
  readonly isShared: boolean;
  /** Whether this process holds a leader lease for the next `forMs`. On an embedded store it holds all of them. */
  holdLease(name: string, forMs: number): MaybePromise<boolean>;

  /** Notifies the dispatchers of all processes of deliveries that this process made due. */
  announce(due: readonly DueDelivery[]): void;
  /** Subscribes to announced deliveries and resumed routes of all processes. Returns the unsubscribe function. */
  onDue(listener: DueListener): () => void;
  /** Calls `wake` after any process stored events, once per batch. Returns the unsubscribe function. */
  onStored(wake: () => void): () => void;

  /** Resolves once all pending writes have ended and all resources are released. */
  close(): Promise<void>;
}

interface Accepting {
  /**
   * Dedupes, stores, tracks and plans an event in one step. The caller announces the due deliveries. `proxyRoute`: the
   * exchange that a `mode: proxy` source makes at once, recorded as a delivery that no dispatcher picks up.
   */
  accept(event: ReceivedEvent, proxyRoute?: string | null): Promise<AcceptOutcome>;
  /**
   * The event id of a signed request: `id`, or the one it got within the last `forMs`. Only the id depends on it, so when a
   * process ends before it stores the event, the next process that receives the request stores it.
   */
  nameRequest(request: string, id: EventId, now: number, forMs: number): Promise<EventId>;
  /** `duplicate`: a body with its id is stored already. */
  quarantine(body: QuarantinedBody): Promise<{ readonly result: "quarantined" | "duplicate"; readonly seq: number }>;
  /** Settles a proxy exchange of this process. */
  settleExchange(settlement: Settlement): Promise<unknown>;
  /** Ends the exchanges of processes that died before they answered. Returns their number. */
  endLeftExchanges(at: number, reason: string): Promise<number>;
  /** All or none: rejects with a `conflict` when one contradicts what is stored. */
  register(registrations: readonly MessageRegistration[], at: number): Promise<{ created: number; due: readonly DueDelivery[] }>;
  /** Each on its own, in order: a conflict does not affect the others. */
  registerEach(registrations: readonly MessageRegistration[], at: number): Promise<readonly Registered[]>;
  /** Null: unknown message. */
  messageState(account: string, wamid: string): MaybePromise<MessageState | null>;
  /** Null: unknown listener. */
  findCursor(name: string): MaybePromise<number | null>;
  /** The latest moved first. */
  listCursors(): MaybePromise<readonly StoredCursor[]>;
  /** Never moves back. Returns the current position. */
  moveCursor(name: string, seq: number, at: number): Promise<number>;
}

/** The counts that no stored row brings. All others are written in the transaction of the rows that they count. */
interface HistoryWriting {
  /** A webhook was answered with 2xx `tookMs` after its request began. Written with a later transaction, within a second. */
  noteAcknowledged(tookMs: number, at: number): void;
  /** The latest sample of a minute wins. */
  sampleGauges(values: GaugeSample, at: number): Promise<void>;
}

/** Marks of what must happen once, such as the use of a one-time code. All processes share them. */
interface Claims {
  /** True for the first call with a key; false for the others, at least until `until`. */
  claimOnce(key: string, until: number): Promise<boolean>;
  isClaimed(key: string): MaybePromise<boolean>;
}

/** Each call is a small step. The next call continues. */
interface Housekeeping {
  /**
   * Releases parked events of registered messages and runs that were too many for the registering step. Returns how many
   * it released, 0 when none are left, and their due deliveries.
   */
  releaseParked(now: number, limit: number): Promise<{ readonly released: number; readonly due: readonly DueDelivery[] }>;
  /** Ends parked events whose time is up. Returns how many, 0 when there are none, and the deliveries that waited behind them. */
  expireParked(now: number, limit: number): Promise<{ readonly concluded: number; readonly due: readonly DueDelivery[] }>;
  purge(now: number, keep: RetentionTimes, limit: number): Promise<Purged>;
  /** Deletes idempotency keys of messages that were used before `before`. Returns how many. */
  forgetSends(before: number, limit: number): Promise<number>;
  /** False when the store knows without writing that it cannot write. It reports the reason to `failed`. */
  isInPlace(): MaybePromise<boolean>;
  /** Writes a mark and waits for the commit, to show that the store can write. */
  probe(at: number): Promise<void>;
}

/** How long rows are kept, in milliseconds (DESIGN.md, `retention`). */
export interface RetentionTimes {
  readonly events: number;
  readonly ignored: number;
  readonly deliveries: number;
  readonly messages: number;
  readonly history: number;
}

/** The rows that one step of retention deleted. */
export interface Purged {
  readonly events: number;
  readonly deliveries: number;
  readonly messages: number;
  /** True when a pass over all old rows is complete and the freed space is returned to the disk. */
  readonly done: boolean;
}

/** Deliveries and events that go out again. */
interface Replays {
  /** Starts a stopped destination again and wakes its dispatchers. False: it was not stopped. */
  resume(route: string): Promise<boolean>;
  /** Ends the pause of a route's destination, and the time that its breaker stays open; true when there was either. */
  endPause(route: string, now: number): Promise<boolean>;
  /** What is noted of routes with their attempts, in their order. */
  notesOf(routes: readonly string[]): MaybePromise<readonly RouteNotes[]>;
  /** Retries one delivery: a settled one waits again, a waiting one goes out at once. Null: not found. */
  retry(event: number, route: string, at: number): Promise<Retried | null>;
  /** The next deliveries that match, out of `limit` that it reads, and the new cursor. Writes nothing. */
  findReplay(filter: ReplayFilter, cursor: ReplayCursor, now: number, limit: number): MaybePromise<ReplayFound>;
  /** Makes those of `found` that are still in these states go out now, under their old ids. */
  replay(found: ReplayFound["found"], states: ReplayFilter["states"], at: number): Promise<Replayed>;
  /** Unrouted events that match a route of the current settings, out of `limit` that it reads. Writes nothing. */
  findBackfill(filter: BackfillFilter, cursor: ReplayCursor, limit: number): MaybePromise<ReplayFound>;
  /** Plans the deliveries of those events that still match the filter. */
  backfill(events: readonly number[], filter: BackfillFilter, at: number): Promise<Replayed>;
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

/** The state of a retried delivery. */
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

/** A quarantined body as it was received. */
export interface QuarantinedEvent extends Omit<QuarantinedBody, "secret" | "error" | "id"> {
  readonly seq: number;
}

export interface QuarantinedFound {
  readonly found: readonly QuarantinedEvent[];
  /** Null when the walk is over. `route` of it is the time of receipt. */
  readonly cursor: ReplayCursor | null;
}

/**
 * Release from quarantine. A released body becomes a new event and is accepted like any other. The quarantined row stays,
 * with the disposition `released` and the seq of that event.
 */
export interface Quarantine {
  /** The next bodies that match, in the order received, `limit` or a few more. Writes nothing. */
  findQuarantined(filter: QuarantineFilter, cursor: ReplayCursor, limit: number): MaybePromise<QuarantinedFound>;
  /** Null: no body with this seq is in quarantine. */
  quarantined(seq: number): MaybePromise<QuarantinedEvent | null>;
  /**
   * Accepts `event`, parsed from the body `event.releaseOf`, and marks that body as released. Repeated calls make one event,
   * because the event id is the same. Null: the body is no longer in quarantine.
   */
  release(event: ReleasedEvent): Promise<AcceptOutcome | null>;
}

export interface ReleasedEvent extends ReceivedEvent {
  readonly releaseOf: number;
}

/** Observations of webhooks that processes share (an embedded store has one process and stores none), alarms, and last passes. */
interface Observations {
  /** Stored for as long as the longest `silence.after`. */
  noteObservations(observations: readonly AccountObservation[]): Promise<void>;
  /** The observations after a place. Null: after the time `from`. */
  observations(place: string | null, from: number): MaybePromise<ObservationsRead>;
  /** Those in force, and those whose end is not reported yet: the process that noted it may have died. */
  alarms(): MaybePromise<readonly StoredAlarm[]>;
  /** Null: its end was reported. */
  keepAlarm(name: AlarmName, alarm: StoredAlarm | null): MaybePromise<void>;
  /** Replaces the account's last reconciliation pass. */
  notePass(pass: LastPass): MaybePromise<void>;
  lastPasses(): MaybePromise<readonly LastPass[]>;
  /** A destination answered a handshake right. `fingerprint`: of its URL and token. */
  noteHandshake(fingerprint: string, at: number): Promise<void>;
  noteSource(note: SourceNote): Promise<void>;
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
  /** Verified events. */
  readonly events: number;
  /** Of them, truncated and about a message. */
  readonly truncated: number;
  /** Bad signatures. */
  readonly refused: number;
  /** Messages registered. */
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
