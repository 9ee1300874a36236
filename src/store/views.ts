import type { DeliveryCounts, EventView, statsSchema } from "../model/answers.ts";
import type { AuditFilter, AuditProgress, AuditReport } from "../model/audit.ts";
import type { QualityView, SeriesQuery, SeriesView } from "../model/history.ts";
import type { ListenedEvent, ListenPage, ListenRow } from "../model/listen.ts";
import type { DeliveryQuery, EventQuery, MessageQuery, QualityQuery, RunQuery } from "../model/queries.ts";
import type { DeliveryState, Disposition } from "../model/states.ts";
import type { View } from "../model/view.ts";

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
  series(query: SeriesQuery): Promise<SeriesView>;
  quality(query: QualityQuery): Promise<QualityView>;
  audit(order: AuditOrder, progress: (at: AuditProgress) => void): Promise<AuditReport>;
  close(): Promise<void>;
}

export type Stats = View<typeof statsSchema>;

/** Offenders that a report lists; the others are counted. */
export const mostOffenders = 100;

export interface AuditOrder extends AuditFilter {
  readonly now: number;
  /** Nothing due should be left then. */
  readonly isRunning: boolean;
  readonly mostOffenders: number;
}
