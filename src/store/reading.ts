import type { AuditFilter, AuditReport } from "../event/audit-report.ts";
import type { DeliveryState } from "../event/delivery.ts";
import type { EventId } from "../event/ids.ts";
import type { Disposition } from "../event/plan.ts";
import type { Soon } from "../event/soon.ts";
import type {
  AttemptView,
  DeliveryFilter,
  DeliveryPlace,
  DeliveryView,
  EventDetail,
  EventFilter,
  EventsListed,
  Held,
  MessageFilter,
  MessageView,
  Proof,
  RouteBacklog,
  RunFilter,
  RunView,
  SeqBounds,
  SeqRange,
  Unplanned,
  WaitingEvents,
} from "./views.ts";

/**
 * Everything of a store that looks and does not write. Seqs grow in the order in which things came in; numbers that
 * retention has freed are not given again. Rejects with `StoreUnavailable` where the store cannot be asked.
 */
export interface StoreReading {
  readonly events: EventReading;
  readonly deliveries: DeliveryReading;
  readonly messages: MessageReading;
  readonly runs: RunReading;
  readonly stories: StoryReading;
  readonly listen: ListenReading;
  proofs(): Soon<readonly Proof[]>;
  /** Routes with open or dead deliveries, or whose destination is stopped. */
  backlog(): Soon<readonly RouteBacklog[]>;
  /** Always none where whoever accepts an event plans it in the same step. */
  unplanned(): Soon<Unplanned>;
}

export interface EventReading {
  list(filter: EventFilter): Soon<EventsListed>;
  get(seq: number): Soon<EventDetail | null>;
  bounds(): Soon<SeqBounds>;
  /** Unix ms at which the last of the events between two seqs (exclusive) was received; null: there are none. */
  latestReceived(after: number, before: number): Soon<number | null>;
  /** The seqs of an event id, one per account that has it. */
  seqsOf(id: string): Soon<readonly number[]>;
}

export interface DeliveryReading {
  /** Newest events first. */
  list(filter: DeliveryFilter): Soon<readonly DeliveryView[]>;
  /** Where a delivery stands in the list: the next page is what is before it. */
  placeOf(delivery: { readonly event: number; readonly route: string }): Soon<DeliveryPlace>;
  attempts(delivery: { readonly event: number; readonly route: string }): Soon<readonly AttemptView[]>;
  find(id: string): Soon<DeliveryView | null>;
}

export interface MessageReading {
  /** Seqs of messages, which are numbers of their own. */
  bounds(): Soon<SeqBounds>;
  /** Registered ones, newest first. */
  list(filter: MessageFilter): Soon<readonly (MessageView & { readonly seq: number })[]>;
  /** By wamid; by the service's id when none has it; else by reference. */
  find(name: string): Soon<readonly MessageView[]>;
}

export interface RunReading {
  /** Seqs of runs, which are numbers of their own. */
  bounds(): Soon<SeqBounds>;
  /** Newest first. */
  list(filter: RunFilter): Soon<readonly (RunView & { readonly seq: number })[]>;
}

/** What `explain` asks beside the views of events, messages and deliveries. */
export interface StoryReading {
  /** Seqs of the events about a message or run, oldest first; of most that wait to be planned only `waitingOf` knows. */
  eventsOf(type: "message" | "run", account: string, key: string, after: number, limit: number): Soon<readonly number[]>;
  /**
   * Events about messages of these wamids, of any account, that wait to be planned. To be asked before `eventsOf`: one that
   * is planned meanwhile is in both, and in neither if it is asked after it.
   */
  waitingOf(wamids: readonly string[], range: SeqRange): Soon<WaitingEvents>;
  /** How many events are planned before this one; null when it does not wait to be planned. */
  ahead(event: number): Soon<number | null>;
  /** What a held delivery waits for; null when it is not held any more. */
  held(event: number, route: string): Soon<Held | null>;
  /** Why a route's destination is stopped; null when it is not. */
  stopReason(route: string): Soon<string | null>;
}

/** Events in the order of their seq, for those who listen. */
export interface ListenReading {
  /** The next events after `start` that are wanted, a page of them. */
  page(start: number, wanted: Wanted): Soon<OpenPage>;
  /** Smallest and greatest seq, 0 when there are no events; `oldestAt` is when the oldest was received. */
  ends(): Soon<{ readonly oldest: number; readonly newest: number; readonly oldestAt: number | null }>;
  /** The seq after which the events received from `time` (unix ms) on are. */
  seqBefore(time: number): Soon<number>;
}

/** An event before its body is read. Times are unix ms. */
export interface ListenRow {
  readonly seq: number;
  readonly id: EventId;
  readonly event: string;
  readonly source: string;
  readonly account: string;
  readonly origin: string;
  readonly receivedAt: number;
  readonly disposition: Disposition;
  readonly status: string | null;
  readonly subject: { readonly type: "message" | "run"; readonly key: string } | null;
  /** Whether its message or run is registered now. */
  readonly tracked: boolean;
}

export interface ListenedContent {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

export interface ListenedEvent extends ListenRow {
  /** To be called while the page is in hand: it may be read only then. */
  content(): ListenedContent;
}

export interface ListenPage {
  readonly events: readonly ListenedEvent[];
  /** Everything up to this seq was looked at. */
  readonly through: number;
  /** Events among those looked at that retention has deleted: how many, and between which seqs. */
  readonly missing: { readonly from: number; readonly to: number; readonly count: number } | null;
  /** True when there was nothing after `through`. */
  readonly atEnd: boolean;
}

/** Which events are wanted; `event` is asked only where `row` said yes. */
export interface Wanted {
  row(row: ListenRow): boolean;
  readonly event: ((event: ListenedEvent) => boolean) | null;
}

/** A page ready to be judged: that and `use` are the work of the thread, in one piece, to be done once. */
export type OpenPage = <T>(use: (page: ListenPage) => T) => T;

/** Looks at every row, without holding up what else goes on. Rejects with `StoreUnavailable` when the store cannot be read, or after `close`. */
export interface Inspecting {
  stats(): Promise<Stats>;
  audit(order: AuditOrder, progress: (at: AuditProgress) => void): Promise<AuditReport>;
  close(): Promise<void>;
}

export interface Stats {
  readonly dispositions: Readonly<Record<Disposition, number>>;
  readonly duplicates: number;
  readonly deliveries: Readonly<Record<DeliveryState, number>>;
  /** Attempts made, and those that led to nothing yet. */
  readonly attempts: { readonly made: number; readonly failed: number };
}

export interface AuditOrder extends AuditFilter {
  /** Unix ms. */
  readonly now: number;
  /** A relay works on the store, so that what is due is done by now. */
  readonly isRunning: boolean;
  readonly mostOffenders: number;
}

export interface AuditProgress {
  /** Events looked at so far, of how many in all, counted by their numbers. */
  readonly checked: number;
  readonly of: number;
}
