import type { attemptSchema, DeliveryCounts, EventRequest, EventView, HydrationView, statsSchema } from "../model/answers.ts";
import type { AuditFilter, AuditProgress, AuditReport } from "../model/audit.ts";
import type { DeliveryState } from "../model/delivery.ts";
import type { QualityQuery, QualityView, SeriesQuery, SeriesView } from "../model/history.ts";
import type { ListenedEvent, ListenPage, ListenRow } from "../model/listen.ts";

import type { Disposition, KeptVerdict } from "../model/plan.ts";
import type { DeliveryQuery, EventQuery, GroupQuery, MessageQuery, RunQuery } from "../model/queries.ts";
import type { View } from "../model/view.ts";

export type { DeliveryCounts, DeliveryGroupView, DeliveryView, EventView, HydrationView, MessageView, RunView } from "../model/answers.ts";
export type { AuditProgress } from "../model/audit.ts";
export type { ListenedContent, ListenedEvent, ListenPage, ListenRow } from "../model/listen.ts";

/** The oldest and the newest seq. Null: no rows. */
export type SeqBounds = { readonly oldest: number; readonly newest: number } | null;

export interface EventsAbout {
  readonly seqs: readonly number[];
  readonly subjects: readonly { readonly type: "message" | "run"; readonly account: string; readonly key: string }[];
  /** The last digits of the phone number in the wamid, or `wholePhone` of it (model/mask.ts). */
  readonly phone?: string | undefined;
  /** Of the message or run. */
  readonly reference?: string | undefined;
}

/** The filters that are columns of an event; names become `about` and `wamid`. */
export type EventFields = Omit<EventQuery, "wamid" | "subject" | "q" | "before" | "limit">;

export interface EventFilter extends EventFields {
  /** At least one of them. With a phone or reference the store reads all events of the range. */
  readonly about?: EventsAbout | undefined;
  readonly wamid?: string | undefined;
  /** Only events with a smaller seq: the last one of the page before. */
  readonly before?: number | undefined;
  readonly after?: number | undefined;
  readonly limit: number;
}

/** A row stores one seq for both. */
export function releaseView(disposition: Disposition | undefined, release: number | null): Pick<EventView, "releasedAs" | "releasedFrom"> {
  return disposition === "released" ? { releasedAs: release, releasedFrom: null } : { releasedAs: null, releasedFrom: release };
}

export interface EventDetail extends EventView {
  readonly request: EventRequest | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly verdicts: readonly KeptVerdict[];
  /** Null unless it was truncated. */
  readonly hydration: HydrationView | null;
}

export type OfEvent = Pick<DeliveryQuery, "errorCode" | "from" | "to">;
export type OfDelivery = Omit<DeliveryQuery, keyof OfEvent | "state" | "before" | "limit">;

export interface DeliveryFilter extends OfEvent, OfDelivery, Pick<DeliveryQuery, "state"> {
  readonly event?: number | undefined;
  /** Only deliveries after this place in the list. */
  readonly before?: DeliveryPlace | undefined;
  /** Only deliveries of events with a greater seq. */
  readonly after?: number | undefined;
  readonly limit: number;
}

export type GroupFilter = GroupQuery;

/** A place in the list of deliveries: an event's seq, and its route; an empty one is past all routes of the event. */
export interface DeliveryPlace {
  readonly event: number;
  readonly route: string;
}

export type AttemptView = Omit<View<typeof attemptSchema>, "response"> & { readonly response: Buffer | null };

export interface Held {
  /** Seq of the event that goes out first, of those of the same message on the route. */
  readonly behind: number;
  /** How many more are held before it. */
  readonly ahead: number;
}

export interface RouteBacklog {
  route: string;
  waiting: number;
  held: number;
  dead: number;
  /** When the oldest waiting delivery is due, in unix ms. */
  oldestDueAt: number | null;
  /** When the dead letter of the oldest event died, in unix ms. Null: none. */
  deadSince: number | null;
  /** Why its destination is stopped; null when it is not. */
  stopped: string | null;
  /** Unix ms; null when it is not stopped. */
  stoppedAt: number | null;
}

export const noQuarantine: QuarantineCount = { events: 0, oldestAt: null, unassigned: { events: 0, oldestAt: null } };

export interface QuarantineCount {
  readonly events: number;
  /** When the first of them was received, in unix ms. Null: none. */
  readonly oldestAt: number | null;
  /** Of events whose business number no account has. */
  readonly unassigned: { readonly events: number; readonly oldestAt: number | null };
}

export type SubjectFields = Omit<RunQuery, "runId" | "q" | "before" | "limit">;
/** The filters that are columns of a message; a phone is compared with its wamid, too. */
export type MessageFields = Omit<MessageQuery, "phone" | "q" | "before" | "limit">;

interface SubjectFilter extends SubjectFields {
  /** Seqs, exclusive. */
  readonly after: number;
  readonly before: number;
  readonly limit: number;
}

export interface MessageFilter extends SubjectFilter, MessageFields {
  /** The last digits of the phone number in the wamid, at least `fewestPhoneDigits` of them, or `wholePhone` of it (model/mask.ts). */
  readonly phone?: string | undefined;
  readonly prefix?: string | undefined;
  /** Messages that were only seen, too. */
  readonly seen?: boolean | undefined;
}

export interface RunFilter extends SubjectFilter {
  /** Also a masked one. */
  readonly runId?: string | undefined;
  readonly prefix?: string | undefined;
}

/** A message or run with its number in the order of arrival. */
export type Numbered<V> = V & { readonly seq: number };

/** How often a secret of a source verified webhooks since its first use. Retention does not lower it. Times are unix ms. */
export interface StoredSecretUse {
  readonly source: string;
  readonly secret: string;
  /** Stored events, quarantined ones included. */
  readonly events: number;
  /** Known ids that came again. */
  readonly duplicates: number;
  readonly firstAt: number;
  readonly lastAt: number;
}

/** When something of a source was last observed. */
export interface SourceNote {
  readonly source: string;
  /** Of the business: an event came for it. Null: the sender performed a handshake. */
  readonly number: string | null;
  /** The number's account; null: none has it. */
  readonly account: string | null;
  /** Unix ms. */
  readonly at: number;
}

export const noDeliveries: DeliveryCounts = { deliveries: {}, cause: null };

/** Adds `n` deliveries of an event. The cause of a dead one comes before that of a waiting one; of several, the first in order of text. */
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
