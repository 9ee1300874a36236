import type { Soon } from "../event/soon.ts";
import type { AttemptView, DeliveryFilter, DeliveryPlace, DeliveryView, Held, RouteBacklog } from "./delivery-views.ts";
import type { EventDetail, EventFilter, EventsListed, SeqBounds, SeqRange, Unplanned, WaitingEvents } from "./event-views.ts";
import type { OpenPage, Wanted } from "./listen-page.ts";
import type { MessageFilter, MessageView, Proof, RunFilter, RunView } from "./tracked-views.ts";

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
