import type { DeliveryState } from "../event/delivery.ts";
import type { HydrationBrief } from "../event/hydration.ts";
import type { DeliveryId, EventId } from "../event/ids.ts";
import type { Disposition } from "../event/plan.ts";
import type { KeptVerdict } from "./rules.ts";

/** Seqs of the oldest and the newest of something; null: there is none. */
export type SeqBounds = { readonly oldest: number; readonly newest: number } | null;

export interface EventFilter {
  readonly event?: string | undefined;
  readonly source?: string | undefined;
  readonly account?: string | undefined;
  readonly status?: string | undefined;
  readonly disposition?: Disposition | undefined;
  readonly wamid?: string | undefined;
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  /** Only events with a smaller seq: the last one of the page before. */
  readonly before?: number | undefined;
  /** Only events with a greater seq. */
  readonly after?: number | undefined;
  readonly limit: number;
}

/** An event as the API and the CLI show it. Times are unix ms. */
export interface EventView {
  readonly seq: number;
  readonly id: EventId | null;
  readonly event: string | null;
  readonly account: string;
  readonly source: string;
  readonly origin: string;
  readonly receivedAt: number;
  readonly createdAt: number | null;
  /** Fingerprint of the secret that proved it. */
  readonly secret: string | null;
  readonly subject: { readonly type: "message" | "run"; readonly key: string } | null;
  readonly status: string | null;
  readonly previousStatus: string | null;
  readonly transition: boolean;
  readonly errorCode: string | null;
  readonly disposition: Disposition;
  readonly parkedUntil: number | null;
  readonly duplicates: number;
  readonly conflicts: number;
  readonly fault: string | null;
  /** Of a released body: seq of the event that it became. */
  readonly releasedAs: number | null;
  /** Of an event that was released from quarantine: seq of the body it was read from. */
  readonly releasedFrom: number | null;
  readonly size: number;
}

/** A row keeps one seq for both. */
export function releaseView(disposition: Disposition | undefined, release: number | null): Pick<EventView, "releasedAs" | "releasedFrom"> {
  return disposition === "released" ? { releasedAs: release, releasedFrom: null } : { releasedAs: null, releasedFrom: release };
}

export interface EventsListed {
  /** Newest first. */
  readonly events: readonly EventView[];
  /** Of a list by wamid: so many of the events that wait to be planned may belong to it, and were not looked at. */
  readonly unseen: number;
}

export interface EventDetail extends EventView {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly verdicts: readonly KeptVerdict[];
  /** Null unless it came without its data. */
  readonly hydration: HydrationView | null;
}

/** Events that are stored and wait for a worker to track and plan them. */
export interface Unplanned {
  readonly events: number;
  /** Unix ms at which the first of them was received; null: none waits. */
  readonly oldestAt: number | null;
}

/** Seqs, both ends exclusive. */
export interface SeqRange {
  readonly after: number;
  readonly before: number;
}

/** An event about a message that waits to be planned. */
export interface WaitingEvent {
  readonly seq: number;
  readonly account: string;
  readonly wamid: string;
}

export interface WaitingEvents {
  /** In the order in which they will be planned. */
  readonly events: readonly WaitingEvent[];
  /** So many more wait than were looked at, and are older than those. */
  readonly unseen: number;
}

/** News learned by asking, as an event of its own. */
export interface FoundView {
  readonly id: EventId;
  readonly seq: number;
  readonly wamid: string | null;
  readonly status: string | null;
}

export interface HydrationView extends Omit<HydrationBrief, "found"> {
  /** The first of them. */
  readonly found: readonly FoundView[];
  /** How many there are in all. */
  readonly foundCount: number;
  /** Unix ms; null while it waits. */
  readonly settledAt: number | null;
}

export interface DeliveryFilter {
  readonly route?: string | undefined;
  readonly state?: DeliveryState | undefined;
  /** Seq of one event. */
  readonly event?: number | undefined;
  /** Only what stands behind this place in the list: see `placeOf`. */
  readonly before?: DeliveryPlace | undefined;
  /** Only deliveries of events with a greater seq. */
  readonly after?: number | undefined;
  readonly limit: number;
}

/** A place in the list of deliveries: an event's seq, and which of its routes, by a number of the store's own (0: before them all). */
export interface DeliveryPlace {
  readonly event: number;
  readonly route: number;
}

/** A delivery as the API and the CLI show it. Times are unix ms. */
export interface DeliveryView {
  readonly id: DeliveryId;
  readonly event: number;
  readonly eventId: string;
  readonly route: string;
  readonly state: DeliveryState;
  readonly attempts: number;
  readonly replays: number;
  readonly nextAt: number | null;
  readonly settledAt: number | null;
  readonly reason: string | null;
}

export interface AttemptView {
  readonly number: number;
  readonly at: number;
  readonly tookMs: number;
  /** HTTP status of the answer; null when none came. */
  readonly status: number | null;
  readonly error: string | null;
  readonly response: Buffer | null;
}

/** What a held delivery waits for. */
export interface Held {
  /** Seq of the event whose delivery goes out first of those of the same message on the route. */
  readonly behind: number;
  /** How many are held before it, besides. */
  readonly ahead: number;
}

/** The open and the dead deliveries of a route. */
export interface RouteBacklog {
  route: string;
  waiting: number;
  held: number;
  dead: number;
  /** Unix ms at which the oldest waiting delivery became or becomes due. */
  oldestDueAt: number | null;
  /** Why its destination is stopped; null when it is not. */
  stopped: string | null;
}

export interface MessageFilter {
  readonly account?: string | undefined;
  readonly status?: string | undefined;
  readonly reference?: string | undefined;
  /** Seqs, exclusive. */
  readonly after: number;
  readonly before: number;
  readonly limit: number;
}

/** A message as the API shows it. Times are unix ms. */
export interface MessageView {
  readonly account: string;
  readonly wamid: string;
  readonly id: string | null;
  readonly conversationId: string | null;
  readonly reference: string | null;
  readonly metadata: Readonly<Record<string, unknown>> | null;
  readonly status: string | null;
  readonly errorCode: string | null;
  /** First time of each status seen. */
  readonly times: Readonly<Record<string, number>>;
  /** As told at registration. */
  readonly sentAt: number | null;
  /** Null: only seen, nobody said that it is theirs. */
  readonly registeredAt: number | null;
  readonly updatedAt: number;
}

export interface RunFilter extends MessageFilter {
  readonly runId?: string | undefined;
}

/** A run as the API shows it. Times are unix ms. */
export interface RunView {
  readonly account: string;
  readonly runId: string;
  readonly reference: string | null;
  readonly metadata: Readonly<Record<string, unknown>> | null;
  readonly status: string | null;
  readonly error: string | null;
  readonly times: Readonly<Record<string, number>>;
  /** Null: started by somebody else, and only seen. */
  readonly registeredAt: number | null;
  readonly updatedAt: number;
}

/** What a secret has proved of a source, since it was first seen; retention lowers nothing. Times are unix ms. */
export interface Proof {
  readonly source: string;
  /** The secret's fingerprint. */
  readonly secret: string;
  /** Stored events, quarantined ones included. */
  readonly events: number;
  /** Known ids that came again. */
  readonly duplicates: number;
  readonly firstAt: number;
  readonly lastAt: number;
}
