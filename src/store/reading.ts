import type { statsSchema } from "../model/answers.ts";
import type { AuditFilter, AuditProgress, AuditReport } from "../model/audit.ts";
import type { QualityQuery, QualityView, SeriesQuery, SeriesView } from "../model/history.ts";
import type { LastHour } from "../model/last-hour.ts";
import type { ListenedEvent, ListenPage, ListenRow } from "../model/listen.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { OfAccounts } from "../model/queries.ts";

import type { View } from "../model/view.ts";
import type {
  AttemptView,
  DeliveryCounts,
  DeliveryFilter,
  DeliveryGroupView,
  DeliveryView,
  EventDetail,
  EventFilter,
  EventView,
  GroupFilter,
  Held,
  MessageFilter,
  MessageView,
  Numbered,
  QuarantineCount,
  RouteBacklog,
  RunFilter,
  RunView,
  SeqBounds,
  SourceNote,
  StoredSecretUse,
} from "./views.ts";

export type { AuditProgress } from "../model/audit.ts";
export type { ListenedContent, ListenedEvent, ListenPage, ListenRow } from "../model/listen.ts";

/**
 * The read-only part of a store. Seqs grow in the order of acceptance and are never reused. Rejects with
 * `StoreUnavailable` when the store cannot be read.
 */
export interface StoreReading {
  readonly events: EventReading;
  readonly deliveries: DeliveryReading;
  readonly messages: MessageReading;
  readonly runs: RunReading;
  readonly stories: StoryReading;
  readonly listen: ListenReading;
  readonly history: HistoryReading;
  /** Whether lists are read outside of the thread that receives, so that one read may take longer. Absent: they are not. */
  isAside?(): boolean;
  /** Random; stored once, with the first data. Null: no relay has opened the store yet. */
  dataId(): MaybePromise<string | null>;
  secretUses(): MaybePromise<readonly StoredSecretUse[]>;
  /** When destinations last answered a handshake right, in unix ms, by the fingerprint of URL and token. */
  handshakes(): MaybePromise<ReadonlyMap<string, number>>;
  sourceNotes(): MaybePromise<readonly SourceNote[]>;
  /** Routes with open or dead deliveries, or whose destination is stopped. */
  backlog(): MaybePromise<readonly RouteBacklog[]>;
  quarantine(): MaybePromise<QuarantineCount>;
}

export interface EventReading {
  /** Newest first. */
  list(filter: EventFilter): MaybePromise<readonly EventView[]>;
  get(seq: number): MaybePromise<EventDetail | null>;
  bounds(): MaybePromise<SeqBounds>;
  /** When the last event between two seqs (exclusive) was received, in unix ms. Null: no events. */
  latestReceived(after: number, before: number): MaybePromise<number | null>;
  /** The seqs of an event id or masked event id, one per account that has it. */
  seqsOf(id: string): MaybePromise<readonly number[]>;
}

export interface DeliveryReading {
  /** Newest events first. */
  list(filter: DeliveryFilter): MaybePromise<readonly DeliveryView[]>;
  attempts(delivery: { readonly event: number; readonly route: string }): MaybePromise<readonly AttemptView[]>;
  /** Also by its masked id. */
  find(id: string): MaybePromise<DeliveryView | null>;
  /** Undelivered deliveries by route, state and cause, in any order. */
  groups(filter: GroupFilter): MaybePromise<readonly DeliveryGroupView[]>;
  /** How many deliveries each event has in each state, by seq. An event without deliveries has no entry. */
  counts(events: readonly number[]): MaybePromise<ReadonlyMap<number, DeliveryCounts>>;
}

export interface MessageReading {
  /** Seqs of messages, which are numbers of their own. */
  bounds(): MaybePromise<SeqBounds>;
  /** Newest first. */
  list(filter: MessageFilter): MaybePromise<readonly Numbered<MessageView>[]>;
  /** By wamid or masked wamid; by the service's id, masked or not, when none has it; else by reference. Newest first. */
  find(name: string, of?: OfAccounts): MaybePromise<readonly Numbered<MessageView>[]>;
}

export interface RunReading {
  /** Seqs of runs, which are numbers of their own. */
  bounds(): MaybePromise<SeqBounds>;
  /** Newest first. */
  list(filter: RunFilter): MaybePromise<readonly Numbered<RunView>[]>;
}

/** The reads of `explain` beside the views of events, messages and deliveries. */
export interface StoryReading {
  /** Seqs of the events about a message or run, oldest first. */
  eventsOf(type: "message" | "run", account: string, key: string, after: number, limit: number): MaybePromise<readonly number[]>;
  /** What a held delivery waits for; null when it is not held any more. */
  held(event: number, route: string): MaybePromise<Held | null>;
  /** Why a route's destination is stopped; null when it is not. */
  stopReason(route: string): MaybePromise<string | null>;
}

export interface HistoryReading {
  lastHour(now: number): MaybePromise<LastHour>;
}

/** Events in the order of their seq, for listeners. */
export interface ListenReading {
  /** A page of the next wanted events after `start`. */
  page(start: number, wanted: Wanted): MaybePromise<OpenPage>;
  /** Smallest and greatest seq, 0 when there are no events; `oldestAt` is when the oldest was received. */
  ends(): MaybePromise<{ readonly oldest: number; readonly newest: number; readonly oldestAt: number | null }>;
  /** The seq after which the events received from `time` (unix ms) on are. */
  seqBefore(time: number): MaybePromise<number>;
}

/** Selects events. `event` is called only when `row` returned true. */
export interface Wanted {
  row(row: ListenRow): boolean;
  readonly event: ((event: ListenedEvent) => boolean) | null;
}

/** A page that `use` reads, once and synchronously. */
export type OpenPage = <T>(use: (page: ListenPage) => T) => T;

/** Reads many rows in the background. Rejects with `StoreUnavailable` when the store cannot be read, or after `close`. */
export interface Inspecting {
  stats(): Promise<Stats>;
  series(query: SeriesQuery): Promise<SeriesView>;
  quality(query: QualityQuery): Promise<QualityView>;
  audit(order: AuditOrder, progress: (at: AuditProgress) => void): Promise<AuditReport>;
  close(): Promise<void>;
}

export type Stats = View<typeof statsSchema>;

export interface AuditOrder extends AuditFilter {
  /** Unix ms. */
  readonly now: number;
  /** A relay works on the store, so nothing due should be left. */
  readonly isRunning: boolean;
  readonly mostOffenders: number;
}
