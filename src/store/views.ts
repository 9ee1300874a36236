import type { DeliveryState } from "../model/delivery.ts";
import type { HydrationBrief } from "../model/hydration.ts";
import type { DeliveryId, EventId } from "../model/ids.ts";
import type { Disposition, KeptVerdict } from "../model/plan.ts";

/** The oldest and the newest seq. Null: no rows. */
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
  /** Fingerprint of the secret that verified it. */
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

/** A row stores one seq for both. */
export function releaseView(disposition: Disposition | undefined, release: number | null): Pick<EventView, "releasedAs" | "releasedFrom"> {
  return disposition === "released" ? { releasedAs: release, releasedFrom: null } : { releasedAs: null, releasedFrom: release };
}

export interface EventsListed {
  /** Newest first. */
  readonly events: readonly EventView[];
  /** Of a list by wamid: number of oldest unplanned events that were not searched. */
  readonly unseen: number;
}

export interface EventDetail extends EventView {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly verdicts: readonly KeptVerdict[];
  /** Null unless it was truncated. */
  readonly hydration: HydrationView | null;
}

/** Stored events that no worker has tracked and planned yet. */
export interface Unplanned {
  readonly events: number;
  /** When the first of them was received, in unix ms. Null: none. */
  readonly oldestAt: number | null;
}

/** Seqs, both ends exclusive. */
export interface SeqRange {
  readonly after: number;
  readonly before: number;
}

/** An unplanned event about a message. */
export interface WaitingEvent {
  readonly seq: number;
  readonly account: string;
  readonly wamid: string;
}

export interface WaitingEvents {
  /** In the order in which they will be planned. */
  readonly events: readonly WaitingEvent[];
  /** Number of oldest unplanned events that were not searched. */
  readonly unseen: number;
}

/** A status that a poll found, as an event of its own. */
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
  /** Unix ms. Null while it waits. */
  readonly settledAt: number | null;
}

export interface DeliveryFilter {
  readonly route?: string | undefined;
  readonly state?: DeliveryState | undefined;
  /** Seq of one event. */
  readonly event?: number | undefined;
  /** Only deliveries after this place in the list, see `placeOf`. */
  readonly before?: DeliveryPlace | undefined;
  /** Only deliveries of events with a greater seq. */
  readonly after?: number | undefined;
  readonly limit: number;
}

/** A place in the list of deliveries: an event's seq, and an internal number of the route (0: before all routes). */
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

/** The deliveries that a held one waits for. */
export interface Held {
  /** Seq of the event that goes out first, of those of the same message on the route. */
  readonly behind: number;
  /** How many more are held before it. */
  readonly ahead: number;
}

/** The open and the dead deliveries of a route. */
export interface RouteBacklog {
  route: string;
  waiting: number;
  held: number;
  dead: number;
  /** When the oldest waiting delivery is due, in unix ms. */
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
  /** As registered. */
  readonly sentAt: number | null;
  /** Null: not registered, only seen. */
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
  /** Null: not started through the relay, only seen. */
  readonly registeredAt: number | null;
  readonly updatedAt: number;
}

/** How often a secret of a source verified webhooks since its first use. Retention does not lower it. Times are unix ms. */
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
